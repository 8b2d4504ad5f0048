package import Settings

/// Servers of the operator's own, which push in whatever way they like.
package struct HTTPPushSettings: SettingsGroup, Equatable {
    package var enabled = false
    package var apps: [String: HTTPPushAppSettings] = [:]

    package init() {}

    package static let schema: [Setting<HTTPPushSettings>] = [
        .bool(
            "enabled", \.enabled,
            "Whether devices of these apps are pushed. Switched off, their contacts become ordinary ones and expire."),
        .named(
            "apps", \.apps, exampleName: "my-gateway",
            "The apps by the name that their devices send as pn-param; a device with another name is answered like one whose provider is unknown."
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

/// One app whose pushes are ordinary HTTP requests.
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
    package var limits = PushLimits()

    package init() {}

    package static let schema: [Setting<HTTPPushAppSettings>] = [
        .value(
            "url", \.url, urlType, example: "\"https://push.example.net/devices/{{token}}\"",
            "Where requests go. Path and query may hold fields, which are percent-encoded: \(HTTPPushField.names); calls and custom in the body only. Redirects are not followed."
        ).required(),
        .choice("method", \.method, "POST, PUT, GET or PATCH."),
        .list(
            "headers", of: headerType, \.headers, example: "[\"x-api-key: k123\", \"idempotency-key: {{push-id}}\"]",
            "Header fields, each \"name: value\"; a value may hold fields. A request with a body is application/json if nothing else stands here."
        ),
        .value(
            "body", \.body, bodyType,
            example:
                "'{\"to\": \"{{token}}\", \"kind\": \"{{type}}\", \"from\": \"{{caller}}\", \"at\": \"{{date}}\"}'",
            "JSON whose strings may hold fields. A string that is only {{date}}, {{badge}} or {{ttl}} becomes a number, {{calls}} an array, {{custom}} an object. Without it requests have no body."
        ),
        .secret(
            "secret", \.secret,
            "Signs requests: sippushd-signature: t=SECONDS,v1=HEX with the Unix time and the HMAC-SHA256 of it, a full stop and the body."
        ),
        .secret(
            "previous-secret", \.previousSecret,
            "Signs besides, in a second v1, while the receiver does not know the new secret yet."),
        .list(
            "accepted-status", of: statusType, \.acceptedStatus, example: "[200, 202]",
            "The answers that mean success. Empty: 200 to 299."),
        .list(
            "dead-status", of: statusType, \.deadStatus,
            "The answers that mean that the app is gone from the device. 404 counts once a push was accepted, for a wrong url looks the same."
        ),
        .choice(
            "after-end", \.afterEnd,
            "What a phone gets that was pushed for a call and has not come before its end: invite-cancel (if it is back within a minute, the INVITE and at once its CANCEL, so that an app that had to show a call learns how it ended), push (at once one that says so, for an app that knows it: docs/Providers.md), or none."
        ),
        .path("ca-file", \.caFile, example: "/etc/sippushd/ca.pem", "Certificate authorities for that server, PEM."),
        .path(
            "cert-file", \.certFile, example: "/etc/sippushd/client-cert.pem", "Our certificate for that server, PEM."),
        .path(
            "cert-key-file", \.certKeyFile, example: "/etc/sippushd/client-key.pem",
            "The certificate's private key, PEM."),
        .group("limits", \.limits, "How much is sent to that server at a time."),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        if method == .get, body != nil { found.append(SettingComplaint("expected none with method GET", key: "body")) }
        if previousSecret != nil, secret == nil {
            found.append(SettingComplaint("expected secret beside it", key: "previous-secret"))
        }
        if let both = deadStatus.first(where: acceptedStatus.contains) {
            found.append(
                SettingComplaint("expected \(both) in one of accepted-status and dead-status", key: "dead-status"))
        }
        if afterEnd == .push, !fields.contains(.type) {
            found.append(
                SettingComplaint(
                    "expected {{type}} in url, headers or body beside push, or the end of a call looks like a call",
                    key: "after-end"))
        }
        if (certFile == nil) != (certKeyFile == nil) {
            found.append(SettingComplaint("expected cert-file and cert-key-file, or neither"))
        }
        return found
    }

    /// Whether requests say of a notification that it is one.
    var tellsNotifications: Bool { fields.contains(where: \.tellsNotification) }

    /// All fields that the requests name.
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

    /// What does not fit is not quoted: it may be a key without its name.
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
