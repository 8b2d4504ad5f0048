import HTTPServer

/// The kind of app that asks for an account: Linphone, or an app of Acrobits such as Cloud Softphone.
enum PhoneClient: String, Sendable, CaseIterable {
    case linphone
    case cloudSoftphone = "acrobits"

    /// Finds out which app sent the request; `nil` for browsers, previews of messengers, and all other programs.
    ///
    /// Only a GET of an app uses a link. A browser would keep the account in its history, and a messenger fetches each
    /// link in a message to show a preview.
    init?(_ request: HTTPRequest) {
        guard request.method == "GET", !Self.isBrowser(request) else { return nil }
        if let name = request.query("client") {
            guard let client = PhoneClient(rawValue: name) else { return nil }
            self = client
            return
        }
        // liblinphone 5.2 and later send this field with each request for an account.
        if request.field("x-linphone-provisioning") != nil {
            self = .linphone
            return
        }
        let agent = (request.field("user-agent") ?? "").lowercased()
        // When liblinphone 5.1 asks for an account, it does not know its own name yet.
        let isOldLinphone = agent == "unknown" && request.field("accept") == nil
        if agent.hasPrefix("linphone") || isOldLinphone {
            self = .linphone
        } else if Self.acrobitsApps.contains(where: agent.contains) {
            self = .cloudSoftphone
        } else {
            return nil
        }
    }

    private static let acrobitsApps = ["acrobits", "cloudsoftphone", "cloud softphone", "groundwire"]

    /// Whether the request has a field that only browsers and programs for previews send.
    private static func isBrowser(_ request: HTTPRequest) -> Bool {
        let fields = ["purpose", "sec-purpose", "x-purpose", "x-moz", "sec-fetch-dest", "sec-fetch-mode"]
        return fields.contains { request.field($0) != nil }
            || (request.field("accept") ?? "").lowercased().contains("text/html")
    }
}
