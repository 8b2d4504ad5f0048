import Crypto
import HTTPClient
import PushDelivery
import Settings
import Telemetry
import Timekeeping

/// Why pushes cannot be sent with these settings: a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// Makes the credentials of one or more apps.
enum CredentialMaker {
    /// Signs a credential immediately, with a key of the daemon. `origin` is the server, for kinds that have a
    /// credential for each server.
    case signer(PushCredentials.Kind, (_ origin: String?, _ date: UnixTime) throws(CryptoError) -> String)
    case google(GoogleTokenClient)

    var kind: PushCredentials.Kind {
        switch self {
        case .signer(let kind, _): kind
        case .google: .google
        }
    }
}

/// An app whose requests carry a credential. Each type of app chooses its maker in the file of its conformance.
protocol CredentialedApp: PushAppRules {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source
}

/// The makers of all apps' credentials. Apps with the same key share a maker.
struct CredentialMakers {
    /// The source of each app's credential. The index is the app's place in the directory.
    private(set) var sources: [PushCredentials.Source] = []
    private(set) var all: [CredentialMaker] = []
    /// The public key with which apps create web push subscriptions, in base64url.
    var vapidKey: String?
    private var shared: [AnyHashable: Int] = [:]

    let accounts: [String: ServiceAccount]
    /// The proxy for all providers.
    let proxy: PushProxy?
    let requestTimeout: Duration
    let http: HTTPSession
    let log: Log

    init(
        _ directory: PushDirectory, accounts: [String: ServiceAccount], proxy: PushProxy?, requestTimeout: Duration,
        http: HTTPSession,
        log: Log
    ) throws(PushSetupError) {
        self.accounts = accounts
        self.proxy = proxy
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

    /// The credential source of all apps with this key. The first call makes it.
    mutating func made(
        for key: AnyHashable, _ make: () throws(PushSetupError) -> CredentialMaker
    ) throws(PushSetupError) -> PushCredentials.Source {
        if let number = shared[key] { return .made(number) }
        all.append(try make())
        shared[key] = all.count - 1
        return .made(all.count - 1)
    }
}
