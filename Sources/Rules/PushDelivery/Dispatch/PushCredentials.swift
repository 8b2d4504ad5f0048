import Timekeeping

/// The credentials for requests to push providers. A credential is a fixed key, or a value that the daemon makes, keeps
/// for a while and renews. Apps with equal keys share one credential.
///
/// ``PushCredentials`` performs no input or output: it returns orders to make credentials, and receives the results.
package struct PushCredentials: Sendable {
    /// The way in which an app gets its credential for the push provider.
    package enum Source: Hashable, Sendable {
        /// The app needs no credential, or uses a certificate instead.
        case none
        case fixed(String)
        /// The app uses the credential with the given number, which the daemon makes.
        case made(Int)
    }

    package enum Kind: Hashable, Sendable {
        /// A token that the daemon signs for Apple. Apple requires that a signed token is used for at least 20 minutes
        /// and at most an hour.
        case apple
        /// An access token from Google's token service.
        case google
        /// A token that the daemon signs for each web push server that push tokens name (RFC 8292).
        case webPush
    }

    /// An order to make the credential with the number `number`. For web push, the order asks for a token for the
    /// server `origin`.
    package struct Order: Hashable, Sendable {
        package let number: Int
        package let origin: String?
    }

    enum Answer: Hashable {
        /// Send the push request with the given value of the header field `authorization`; `nil` if the request needs
        /// no `authorization`. The associated order `renewal` makes a new credential while the request is sent.
        case ready(String?, renewal: Order? = nil)
        /// Let the push wait until the daemon has made the credential. If `isNew` is false, the credential has already
        /// been ordered.
        case later(Order, isNew: Bool)
        /// End the push with the given outcome, because its credential could not be made. The text `problem` gives the
        /// reason for the operator; `nil` if an answer to a push was the reason.
        case none(PushOutcome, problem: String?)
    }

    private struct Made {
        let kind: Kind
        var cache: CredentialCache
        /// The reason why no credential could be made, for the operator; `nil` if a credential was made.
        var problem: String?
        /// The signed tokens for web push, by the server that each token is for.
        var tokens: [String: OriginToken] = [:]
        var ordered: Set<String> = []
    }

    private struct OriginToken {
        let value: String
        let madeAt: UnixTime
        let end: Instant
    }

    /// The source of each app's credential, at the app's index in the list of apps.
    private var sources: [Source]
    /// The credentials that the daemon makes, by the number of the credential. The number of a credential is never used
    /// for another credential.
    private var made: [Int: Made]

    private static let appleLife: Duration = .seconds(40 * 60)
    package static let webPushLife: Duration = .seconds(12 * 3600)
    private static let originLimit = 256
    /// The pauses before the daemon tries again to make a credential: `refusedPause` after Google has refused the key,
    /// and `pause` after any other failure.
    private static let refusedPause: Duration = .seconds(60)
    private static let pause: Duration = .seconds(2)

    /// Creates the credentials of all push apps.
    ///
    /// - Parameters:
    ///   - sources: the way in which each app gets its credential, at the app's index in the list of apps.
    ///   - kinds: the kind of each credential that the daemon makes; the index is the credential's number.
    package init(_ sources: [Source] = [], kinds: [Kind] = []) {
        self.init(sources, kinds: Dictionary(uniqueKeysWithValues: zip(kinds.indices, kinds)))
    }

    package init(_ sources: [Source], kinds: [Int: Kind]) {
        self.sources = sources
        made = kinds.mapValues { kind in
            Made(kind: kind, cache: CredentialCache(renewedBeforeEnd: kind == .google ? .seconds(300) : .zero))
        }
    }

    /// Replaces the sources of the apps' credentials by the sources of `other`. Credentials whose numbers also exist in
    /// `other` are kept, and all other credentials are dropped.
    mutating func changed(to other: PushCredentials) {
        sources = other.sources
        made = other.made.merging(made.filter { other.made[$0.key] != nil }) { $1 }
    }

    /// Whether the daemon still makes the credential with the given number.
    func has(_ number: Int) -> Bool { made[number] != nil }

    /// Decides which credential an app's request to a push server gets, or whether the push must wait.
    mutating func wanted(by app: PushApp.ID, at origin: String?, now: Moment) -> Answer {
        guard sources.indices.contains(app.index) else { return .ready(nil) }
        switch sources[app.index] {
        case .none: return .ready(nil)
        case .fixed(let value): return .ready(value)
        case .made(let number):
            guard let kind = made[number]?.kind else { return .ready(nil) }
            guard kind == .webPush else { return shared(number, now: now.instant) }
            // If a web push token names no server, no request is sent, so the push needs no credential.
            return origin.map { token(number, for: $0, now: now) } ?? .ready(nil)
        }
    }

    private mutating func shared(_ number: Int, now: Instant) -> Answer {
        let order = Order(number: number, origin: nil)
        guard let want = made[number]?.cache.wanted(now: now) else { return .ready(nil) }
        switch want {
        case .use(let value): return .ready(value)
        case .useAndMake(let value): return .ready(value, renewal: order)
        case .make: return .later(order, isNew: true)
        case .wait: return .later(order, isNew: false)
        case .giveUp(let outcome): return .none(outcome, problem: made[number]?.problem)
        }
    }

    private mutating func token(_ number: Int, for origin: String, now: Moment) -> Answer {
        // Push services check the times in a signed token by their own clocks. If this machine's clock was set after a
        // token was signed, the push service may find the token's times wrong.
        if let token = made[number]?.tokens[origin], now.instant < token.end,
            (Duration.zero...Self.webPushLife).contains(now.date - token.madeAt)
        {
            return .ready(token.value)
        }
        return .later(
            Order(number: number, origin: origin), isNew: made[number]?.ordered.insert(origin).inserted == true)
    }

    /// Stores a new credential for a push provider; `life` is the lifetime of the credential, if the issuer reported
    /// one.
    mutating func made(_ order: Order, _ value: String, life: Duration?, now: Moment) {
        guard var credential = made[order.number] else { return }
        defer { made[order.number] = credential }
        credential.problem = nil
        guard let origin = order.origin else {
            return credential.cache.made(value, life: life ?? Self.appleLife, now: now.instant)
        }
        credential.ordered.remove(origin)
        if credential.tokens.count >= Self.originLimit { credential.tokens = [:] }
        credential.tokens[origin] = OriginToken(
            value: value, madeAt: now.date, end: now.instant + Self.webPushLife)
    }

    /// Handles the failure to make a credential for a push provider.
    mutating func failed(_ order: Order, _ outcome: PushOutcome, problem: String?, now: Instant) {
        guard let kind = made[order.number]?.kind else { return }
        if let problem { made[order.number]?.problem = problem }
        if let origin = order.origin {
            made[order.number]?.ordered.remove(origin)
        } else {
            let pause = pause(after: outcome, kind)
            made[order.number]?.cache.failed(outcome, pause: pause, now: now)
        }
    }

    private func pause(after outcome: PushOutcome, _ kind: Kind) -> Duration {
        if kind == .google, case .credentialsRefused = outcome { return Self.refusedPause }
        return Self.pause
    }

    /// Handles a provider's refusal of the credential of an app.
    mutating func refused(_ value: String?, by app: PushApp.ID, now: Instant) {
        guard let value, sources.indices.contains(app.index), case .made(let number) = sources[app.index] else {
            return
        }
        made[number]?.cache.refused(value, now: now)
    }

    // MARK: Ahead of time

    /// The time at which the next of Google's access tokens must be renewed, so that no push has to wait for a token.
    var nextRenewal: Instant? {
        var next: Instant?
        for credential in made.values where credential.kind == .google {
            if let renewal = credential.cache.nextRenewal { next = min(next ?? renewal, renewal) }
        }
        return next
    }

    /// Returns orders for the access tokens of Google that must be renewed now.
    mutating func renewals(now: Instant) -> [Order] {
        var orders: [Order] = []
        for number in made.keys.sorted() where made[number]?.kind == .google {
            guard let renewal = made[number]?.cache.nextRenewal, renewal <= now else { continue }
            switch made[number]?.cache.wanted(now: now) {
            case .make, .useAndMake: orders.append(Order(number: number, origin: nil))
            case .use, .wait, .giveUp, nil: break
            }
        }
        return orders
    }
}
