import HTTPClient
import PushDelivery
import Reactor
import Settings
import Telemetry

/// Why the push side cannot start: a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// What requests must carry: each app's signed token, access token or fixed key. Apps with the same key share its token.
///
/// Lives on its shard's loop.
final class ProviderCredentials {
    enum Answer {
        /// The value of `authorization`; `nil` where a certificate or nothing stands for it.
        case ready(HTTPHeader?)
        /// ``changed`` will tell.
        case later
        case none(PushOutcome)
    }

    /// A credential that pushes wait for is there, or will not come; asked again, the answer is another than `later`.
    var changed: () -> Void = {}

    private enum Source {
        case none
        case fixed(HTTPHeader)
        case apple(AppleCredential)
        case google(GoogleCredential)
        case vapid(VAPIDCredential)
    }

    /// By the app's place in the directory.
    private var sources: [Source] = []
    /// The public key that web push subscriptions are to be made for, base64url.
    private(set) var vapidKey: String?

    init(
        _ directory: PushDirectory, accounts: [String: ServiceAccount], requestTimeout: Duration, http: HTTPSession,
        log: Log
    ) throws(PushSetupError) {
        var apple: [AppleCredential.Key: AppleCredential] = [:]
        var google: [GoogleCredential.Key: GoogleCredential] = [:]
        for app in directory.apps {
            switch app.service {
            case .apns(let settings):
                guard let key = AppleCredential.Key(settings) else {
                    sources.append(.none)
                    continue
                }
                let credential: AppleCredential
                if let known = apple[key] {
                    credential = known
                } else {
                    credential = try AppleCredential(key, loop: http.loop)
                }
                apple[key] = credential
                sources.append(.apple(credential))
            case .fcm(let settings):
                guard let key = GoogleCredential.Key(settings), let account = accounts[key.accountFile] else {
                    sources.append(settings.serverKey.map { .fixed(Self.header("key=" + $0.reveal())) } ?? .none)
                    continue
                }
                let credential =
                    google[key] ?? GoogleCredential(key, account, http: http, timeout: requestTimeout, log: log)
                credential.changed = { [weak self] in self?.changed() }
                google[key] = credential
                sources.append(.google(credential))
            case .webPush(let settings):
                let credential = try VAPIDCredential(settings, loop: http.loop)
                vapidKey = credential.publicKey
                sources.append(.vapid(credential))
            case .acrobits, .http: sources.append(.none)
            }
        }
    }

    /// Fetches what has to be fetched, and keeps it fresh.
    func keepReady() throws(SystemError) {
        for case .google(let credential) in sources { try credential.keepReady() }
    }

    /// - Parameters:
    ///   - app: whose push it is.
    ///   - origin: the server, where each token has one of its own.
    /// - Returns: what the request must carry.
    func credential(for app: PushApp.ID, at origin: String?) -> Answer {
        guard sources.indices.contains(app.index) else { return .ready(nil) }
        switch sources[app.index] {
        case .none: return .ready(nil)
        case .fixed(let header): return .ready(header)
        case .apple(let credential): return credential.wanted()
        case .google(let credential): return credential.wanted()
        case .vapid(let credential):
            // Without an origin there will be no request.
            return origin.map { credential.wanted(for: $0) } ?? .ready(nil)
        }
    }

    /// Why there is none, where that is not the provider's answer to a push.
    func problem(of app: PushApp.ID) -> String? {
        guard sources.indices.contains(app.index), case .google(let credential) = sources[app.index] else { return nil }
        return credential.problem
    }

    /// The provider refused a push that carried this one.
    func refused(_ header: HTTPHeader?, by app: PushApp.ID) {
        guard let value = header?.value, sources.indices.contains(app.index) else { return }
        switch sources[app.index] {
        case .none, .fixed, .vapid: break
        case .apple(let credential): credential.refused(value)
        case .google(let credential): credential.refused(value)
        }
    }

    static func header(_ value: String) -> HTTPHeader { HTTPHeader("authorization", value) }
}
