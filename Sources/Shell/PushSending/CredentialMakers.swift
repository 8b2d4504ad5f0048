import Crypto
import HTTPClient
import PushDelivery
import Settings
import Telemetry
import Timekeeping

/// Why the push side cannot start: a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// What makes an app's credential.
enum CredentialMaker {
    /// Signs it at once, with a key of ours; for the server of that origin, where the kind has one for each.
    case signer(PushCredentials.Kind, (_ origin: String?, _ date: UnixTime) throws(CryptoError) -> String)
    case google(GoogleTokenClient)

    var kind: PushCredentials.Kind {
        switch self {
        case .signer(let kind, _): kind
        case .google: .google
        }
    }
}

/// An app whose requests carry a credential. What makes it stands beside the conformance of each.
protocol CredentialedApp: PushAppRules {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source
}

/// The makers of all apps' credentials. Apps with the same key share a maker.
struct CredentialMakers {
    /// Where each app's credential comes from, by the app's place in the directory.
    private(set) var sources: [PushCredentials.Source] = []
    private(set) var all: [CredentialMaker] = []
    /// The public key that web push subscriptions are to be made for, base64url.
    var vapidKey: String?
    private var shared: [AnyHashable: Int] = [:]

    let accounts: [String: ServiceAccount]
    let requestTimeout: Duration
    let http: HTTPSession
    let log: Log

    init(
        _ directory: PushDirectory, accounts: [String: ServiceAccount], requestTimeout: Duration, http: HTTPSession,
        log: Log
    ) throws(PushSetupError) {
        self.accounts = accounts
        self.requestTimeout = requestTimeout
        self.http = http
        self.log = log
        for app in directory.apps {
            guard let app = app.rules as? any CredentialedApp else {
                sources.append(.none)
                continue
            }
            sources.append(try app.credential(&self))
        }
    }

    /// The source of all apps with that key.
    mutating func made(
        for key: AnyHashable, _ make: () throws(PushSetupError) -> CredentialMaker
    ) throws(PushSetupError) -> PushCredentials.Source {
        if let number = shared[key] { return .made(number) }
        all.append(try make())
        shared[key] = all.count - 1
        return .made(all.count - 1)
    }
}
