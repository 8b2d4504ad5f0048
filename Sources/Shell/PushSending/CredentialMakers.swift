import Crypto
import HTTPClient
import PushDelivery
import Settings
import Telemetry
import Timekeeping

/// Why pushes cannot be sent with the settings, as a sentence for the operator.
package struct PushSetupError: Error, CustomStringConvertible {
    package let description: String
    package init(_ sentence: String) { description = sentence }
}

/// Creates the credentials of one or more apps.
enum CredentialMaker {
    /// Signs a credential immediately, with a key of the daemon. The value `origin` is the server, for providers that
    /// need a credential for each server.
    case signer(PushCredentials.Kind, (_ origin: String?, _ date: UnixTime) throws(CryptoError) -> String)
    /// Requests a credential from the token service of the provider.
    case accessToken(AccessTokenClient)

    var kind: PushCredentials.Kind {
        switch self {
        case .signer(let kind, _): kind
        case .accessToken: .accessToken
        }
    }
}

/// An app whose requests carry a credential. The type of an app decides how the app's credential is made.
protocol CredentialedApp: PushAppRules {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source
}

/// The objects that create the credentials of all push apps. Several apps with one key share one credential maker.
struct CredentialMakers {
    /// The source of each app's credential, with the app's index in the list of apps as the index.
    private(set) var sources: [PushCredentials.Source] = []
    /// The makers of credentials by their numbers. The number of a removed credential maker is never reused.
    private(set) var all: [Int: CredentialMaker] = [:]
    /// The public key with which apps create web push subscriptions, in base64url.
    var vapidKey: String?
    private var numbers: [AnyHashable: Int] = [:]
    private var nextNumber = 0
    /// The makers from before a reload, until all new makers have been created.
    private var former: (all: [Int: CredentialMaker], numbers: [AnyHashable: Int]) = ([:], [:])

    let accounts: [String: ServiceAccount]
    /// The connection parameters of the app whose credential is being made.
    private(set) var connection: AppConnection?
    let requestTimeout: Duration
    let log: Log

    init(accounts: [String: ServiceAccount], requestTimeout: Duration, log: Log) {
        self.accounts = accounts
        self.requestTimeout = requestTimeout
        self.log = log
    }

    /// Creates the makers of all push apps' credentials, at the daemon's start.
    mutating func make(for apps: [PushApp], _ connections: [AppConnection]) throws(PushSetupError) {
        for (app, connection) in zip(apps, connections) { sources.append(try source(of: app, connection)) }
    }

    /// Creates the makers of the same apps again, from changed settings and files. A maker stays if its key is
    /// unchanged or its new key is unusable; for an unusable key, `failed` is called.
    mutating func make(
        for apps: [PushApp], _ connections: [AppConnection], after old: CredentialMakers,
        failed: (PushApp, PushSetupError) -> Void
    ) {
        former = (old.all, old.numbers)
        nextNumber = old.nextNumber
        for (app, connection) in zip(apps, connections) {
            do throws(PushSetupError) {
                sources.append(try source(of: app, connection))
            } catch {
                failed(app, error)
                sources.append(keep(old.sources[app.id.index]))
                vapidKey = vapidKey ?? old.vapidKey
            }
        }
        former = ([:], [:])
    }

    private mutating func source(
        of app: PushApp, _ connection: AppConnection
    ) throws(PushSetupError) -> PushCredentials.Source {
        guard let app = app.rules as? any CredentialedApp else { return .none }
        self.connection = connection
        return try app.credential(&self)
    }

    private mutating func keep(_ source: PushCredentials.Source) -> PushCredentials.Source {
        if case .made(let number) = source {
            all[number] = former.all[number]
            for (key, other) in former.numbers where other == number { numbers[key] = number }
        }
        return source
    }

    /// Returns the source of credentials that all apps with the given key share. For a new key, the function `make`
    /// creates the maker of the credentials.
    mutating func made(
        for key: AnyHashable, _ make: () throws(PushSetupError) -> CredentialMaker
    ) throws(PushSetupError) -> PushCredentials.Source {
        if let number = numbers[key] { return .made(number) }
        if let number = former.numbers[key], let maker = former.all[number] {
            all[number] = maker
            numbers[key] = number
            return .made(number)
        }
        all[nextNumber] = try make()
        numbers[key] = nextNumber
        nextNumber += 1
        return .made(nextNumber - 1)
    }
}
