/// Writes pushes for an operator's own server, as its settings define.
enum HTTPPushRequest {
    static func make(_ context: PayloadContext, _ settings: HTTPPushAppSettings) -> PushRendering {
        let values = HTTPPushValues(context: context)
        // A server whose requests do not show that a push is a notification gets none, because it could mistake it for
        // a call.
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
