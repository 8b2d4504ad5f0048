import HTTPClient
import PushDelivery
import Settings
import Telemetry

/// Why push sending cannot start: a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// The source of an app's credential: a key of ours, or Google's token service.
enum CredentialMaker {
    case apple(AppleTokenSigner)
    case google(GoogleTokenClient)
    case webPush(VAPIDTokenSigner)

    var kind: PushCredentials.Kind {
        switch self {
        case .apple: .apple
        case .google: .google
        case .webPush: .webPush
        }
    }
}

/// The sources of all apps' credentials. Apps with the same key share one.
struct CredentialMakers {
    /// The source of each app's credential, by the app's place in the directory.
    private(set) var sources: [PushCredentials.Source] = []
    private(set) var all: [CredentialMaker] = []
    /// The public key for web push subscriptions, base64url.
    private(set) var vapidKey: String?

    init(
        _ directory: PushDirectory, accounts: [String: ServiceAccount], requestTimeout: Duration, http: HTTPSession,
        log: Log
    ) throws(PushSetupError) {
        var apple: [AppleTokenSigner.Key: Int] = [:]
        var google: [GoogleTokenClient.Key: Int] = [:]
        for app in directory.apps {
            switch app.service {
            case .apns(let settings):
                guard let key = AppleTokenSigner.Key(settings) else {
                    sources.append(.none)
                    continue
                }
                if apple[key] == nil { apple[key] = add(.apple(try AppleTokenSigner(key))) }
                sources.append(apple[key].map { .made($0) } ?? .none)
            case .fcm(let settings):
                guard let key = GoogleTokenClient.Key(settings), let account = accounts[key.accountFile] else {
                    sources.append(settings.serverKey.map { .fixed("key=" + $0.reveal()) } ?? .none)
                    continue
                }
                if google[key] == nil {
                    google[key] = add(
                        .google(GoogleTokenClient(key, account, http: http, timeout: requestTimeout, log: log)))
                }
                sources.append(google[key].map { .made($0) } ?? .none)
            case .webPush(let settings):
                let signer = try VAPIDTokenSigner(settings)
                vapidKey = signer.publicKey
                sources.append(.made(add(.webPush(signer))))
            case .acrobits, .http: sources.append(.none)
            }
        }
    }

    private mutating func add(_ maker: CredentialMaker) -> Int {
        all.append(maker)
        return all.count - 1
    }
}
