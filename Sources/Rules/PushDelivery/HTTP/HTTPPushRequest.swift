/// Builds pushes for an operator's own push server, in the form that the settings of the server define.
enum HTTPPushRequest {
    static func make(_ context: PayloadContext, _ settings: HTTPPushAppSettings) -> PushRendering {
        let values = HTTPPushValues(context: context)
        // If the template does not show that a push is a notification, the server gets no notifications, because it
        // could take a notification for a call.
        if case .notification = context.push.message, !settings.tellsNotifications {
            return .impossible(.noSuitableToken)
        }
        guard let url = settings.url?.render(values) else { return .impossible(.noSuitableToken) }
        var headers: [ProviderRequest.Header] = []
        for header in settings.headers {
            guard let header = header.render(values) else { return .impossible(.noSuitableToken) }
            headers.append(header)
        }
        guard let body = settings.body else {
            return .request(
                ProviderRequest(method: settings.method.rawValue, url: url, headers: headers, body: []))
        }
        if !headers.contains(where: { $0.name == "content-type" }) { headers.append(.json) }
        return .request(
            ProviderRequest(
                method: settings.method.rawValue, url: url, headers: headers, body: body.render(values)))
    }
}
