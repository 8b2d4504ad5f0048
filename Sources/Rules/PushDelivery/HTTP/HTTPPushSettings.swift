package import Settings

/// The settings for the operator's own push servers. The operator defines the form of the requests to each server.
package struct HTTPPushSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var apps: [String: HTTPPushAppSettings] = [:]

    package init() {}

    package static let schema: [Setting<HTTPPushSettings>] = [
        .enabled(\.enabled, pushesTo: "devices of the apps in `push.http.apps`"),
        .named(
            "apps", \.apps, exampleName: "my-gateway",
            "The apps to which your own servers send pushes. The name of each group of settings is the `pn-param` of the app's devices. If `pn-param` of a REGISTER names no app in the settings, the daemon treats the REGISTER like a REGISTER with an unknown provider."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        guard enabled, apps.isEmpty else { return [] }
        return [SettingComplaint("expected at least one of apps, since http is enabled", key: "enabled")]
    }
}

package enum HTTPPushMethod: String, Hashable, Sendable, CaseIterable {
    case post = "POST"
    case put = "PUT"
    case get = "GET"
    case patch = "PATCH"
}

/// The settings for one of the operator's own push servers, which gets pushes as HTTP requests.
package struct HTTPPushAppSettings: SettingsGroup, Equatable {
    package var url: HTTPPushURL?
    package var method = HTTPPushMethod.post
    package var headers: [HTTPPushHeader] = []
    package var body: HTTPPushBody?
    package var secret: Secret?
    package var previousSecret: Secret?
    package var acceptedStatus: [Int] = []
    package var deadStatus = [404, 410]
    package var afterEnd = AfterEnd.none
    package var caFile: String?
    package var certFile: String?
    package var certKeyFile: String?
    package var proxy: PushProxy?
    package var limits = ProviderLimits()

    package init() {}

    package static let schema: [Setting<HTTPPushAppSettings>] = [
        .value(
            "url", \.url, urlType, example: "\"https://push.example.net/devices/{{token}}\"",
            "The URL to which the daemon sends each push. Path and query may contain fields such as {{token}}, whose values are percent-encoded. The fields are \(HTTPPushField.names); calls and custom are allowed only in the body. The daemon does not follow redirects."
        ).required(),
        .choice("method", \.method, "The HTTP method: POST, PUT, GET or PATCH."),
        .list(
            "headers", of: headerType, \.headers, example: "[\"x-api-key: k123\", \"idempotency-key: {{push-id}}\"]",
            "Header fields of requests, each \"name: value\". A value may contain the fields that the setting `url` lists, such as `{{token}}`. The default content-type of a request with a body is application/json."
        ),
        .value(
            "body", \.body, bodyType,
            example:
                "'{\"to\": \"{{token}}\", \"kind\": \"{{type}}\", \"from\": \"{{caller}}\", \"call\": \"{{call-id}}\", \"sent\": \"{{sent}}\", \"ttl\": \"{{ttl}}\"}'",
            "The JSON body of requests. Strings in the body may contain the fields that the setting `url` lists. A string that is only `{{date}}`, `{{sent}}`, `{{badge}}` or `{{ttl}}` becomes a number, `{{calls}}` an array, `{{custom}}` an object. If `body` is not set, requests have no body."
        ),
        .secret(
            "secret", \.secret,
            "The key that signs requests. The signature is in the header field `sippushd-signature: t=SECONDS,v1=HEX`. SECONDS is the Unix time. HEX is the HMAC-SHA256 of SECONDS, a full stop and the body."
        ).taken(.atOnce),
        .secret(
            "previous-secret", \.previousSecret,
            "The previous value of `secret`. With `previous-secret` the daemon adds a second signature (`v1`) to each request. Remove `previous-secret` when the server that receives the pushes knows the new secret."
        ).taken(.atOnce),
        .list(
            "accepted-status", of: statusType, \.acceptedStatus, example: "[200, 202]",
            "The HTTP statuses by which your server reports that it accepted the push. With an empty list, every status from 200 to 299 means that the server accepted the push."
        ),
        .list(
            "dead-status", of: statusType, \.deadStatus,
            "The HTTP statuses by which your server reports that the app was removed from the device. The daemon ignores 404 until your server has accepted a push, because a wrong url causes 404 as well."
        ),
        .afterEnd(\.afterEnd),
        .authorities(\.caFile),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/client-cert.pem",
            "The client certificate for the push server, PEM."
        ).taken(.atOnce),
        .path(
            "cert-key-file", \.certKeyFile, example: "/etc/sippushd/client-key.pem",
            "The certificate's private key, PEM."
        ).taken(.atOnce),
        .proxy(\.proxy),
        .group("limits", \.limits, "Limits of parallel requests to the app's server."),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        if method == .get, body != nil { found.append(SettingComplaint("expected none with method GET", key: "body")) }
        if previousSecret != nil, secret == nil {
            found.append(SettingComplaint("expected secret as well", key: "previous-secret"))
        }
        if let both = deadStatus.first(where: acceptedStatus.contains) {
            found.append(
                SettingComplaint("expected \(both) in one of accepted-status and dead-status", key: "dead-status"))
        }
        if afterEnd == .push, !fields.contains(.type) {
            found.append(
                SettingComplaint(
                    "expected {{type}} in url, headers or body with after-end push; otherwise the end of a call looks like a call",
                    key: "after-end"))
        }
        if (certFile == nil) != (certKeyFile == nil) {
            found.append(SettingComplaint("expected cert-file and cert-key-file, or neither"))
        }
        return found
    }

    /// Whether the request of a push shows the server that the push is a notification and not a call.
    var tellsNotifications: Bool { fields.contains(where: \.tellsNotification) }

    /// All fields in the templates for the server's URL, header fields and body.
    private var fields: [HTTPPushField] {
        let templates = headers.map(\.template) + [url?.template].compactMap(\.self)
        return templates.flatMap(\.fields) + (body?.fields ?? [])
    }

    // MARK: Types

    private static let urlType = SettingType<HTTPPushURL>.parsed("URL with fields") { text throws(SettingComplaint) in
        try HTTPPushURL(text)
    } print: {
        $0.template.source
    }

    /// The type of a header field in the settings for the operator's own push server. Error messages do not quote the
    /// value of a header field, because the value may be a key.
    private static let headerType = SettingType<HTTPPushHeader>(name: "name: value") { node throws(SettingMismatch) in
        guard let text = node.text else { throw SettingMismatch("expected \"name: value\"", at: node.position) }
        do throws(SettingComplaint) {
            return try HTTPPushHeader(text)
        } catch {
            throw SettingMismatch(error.sentence, at: node.position)
        }
    } print: {
        "\"\($0.name): (secret)\""
    }

    private static let bodyType = SettingType<HTTPPushBody>.parsed("JSON with fields") {
        text throws(SettingComplaint) in
        try HTTPPushBody(text)
    } print: {
        $0.source
    }

    private static let statusType = SettingType<Int>.integer(in: 200...599)
}
