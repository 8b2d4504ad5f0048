import Timekeeping

/// The credentials for requests to push providers. A credential is either a fixed key, or a token that the daemon
/// creates and renews. Apps with equal keys share one credential.
///
/// ``PushCredentials`` does no input or output: it returns orders to make credentials, and gets the results.
package struct PushCredentials: Sendable {
    /// How an app gets its credential for the push provider.
    package enum Source: Hashable, Sendable {
        /// The app needs no credential, or uses a certificate instead.
        case none
        case fixed(String)
        /// The app uses the made credential with the given number.
        case made(Int)
    }

    package enum Kind: Hashable, Sendable {
        /// A token that the daemon signs for Apple. Apple requires that a signed token is used for at least 20 minutes
        /// and at most an hour.
        case apple
        /// An access token from the token service of the provider.
        case accessToken
        /// A token that the daemon signs for each web push server that push tokens name (RFC 8292).
        case webPush
    }

    /// An order to make the credential `number`; for web push, a token for the server `origin`.
    package struct Order: Hashable, Sendable {
        package let number: Int
        package let origin: String?
    }

    enum Answer: Hashable {
        /// Send the push request with the given value of the header field `authorization`; `nil` for no
        /// `authorization`. The order `renewal` makes a new credential while the request is sent.
        case ready(String?, renewal: Order? = nil)
        /// Let the push wait until the credential has been made. If `isNew` is false, the credential was ordered
        /// before.
        case later(Order, isNew: Bool)
        /// End the push with the given outcome, because its credential could not be made. The text `problem` tells the
        /// operator why no credential was made; `nil` if the reason came in an answer to a push.
        case none(PushOutcome, problem: String?)
    }

    private struct Made {
        let kind: Kind
        var cache: CredentialCache
        /// Why no credential could be made, in words for the operator; `nil` after a credential was made.
        var problem: String?
        /// The signed tokens for web push, by web push server.
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
    /// The credentials that the daemon makes, by the number of the credential. The number of a credential is never
    /// reused.
    private var made: [Int: Made]

    private static let appleLife: Duration = .seconds(40 * 60)
    package static let webPushLife: Duration = .seconds(12 * 3600)
    private static let originLimit = 256
    /// The pauses before the daemon tries again to make a credential: `refusedPause` after a token service has refused the key,
    /// and `pause` after any other failure.
    private static let refusedPause: Duration = .seconds(60)
    private static let pause: Duration = .seconds(2)

    /// Creates the credentials of all push apps.
    ///
    /// - Parameters:
    ///   - sources: how each app gets its credential, at the app's index in the list of apps.
    ///   - kinds: the kind of each made credential, at the credential's number.
    package init(_ sources: [Source] = [], kinds: [Kind] = []) {
        self.init(sources, kinds: Dictionary(uniqueKeysWithValues: zip(kinds.indices, kinds)))
    }

    package init(_ sources: [Source], kinds: [Int: Kind]) {
        self.sources = sources
        made = kinds.mapValues { kind in
            Made(kind: kind, cache: CredentialCache(renewedBeforeEnd: kind == .accessToken ? .seconds(300) : .zero))
        }
    }

    /// Replaces the sources of the apps' credentials by the sources of `other`. If `other` has the number of a
    /// credential, the credential is kept; otherwise it is dropped.
    mutating func changed(to other: PushCredentials) {
        sources = other.sources
        made = other.made.merging(made.filter { other.made[$0.key] != nil }) { $1 }
    }

    /// Whether an app still uses the credential with the given number.
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
            // A web push token without a server causes no request, so the push needs no credential.
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
        // Push services compare the times in a signed token with their own clocks. If this machine's clock was
        // corrected, the times in an older token may be wrong.
        if let token = made[number]?.tokens[origin], now.instant < token.end,
            (Duration.zero...Self.webPushLife).contains(now.date - token.madeAt)
        {
            return .ready(token.value)
        }
        return .later(
            Order(number: number, origin: origin), isNew: made[number]?.ordered.insert(origin).inserted == true)
    }

    /// Stores a new credential; `life` is the lifetime that the issuer reported, if any.
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

    /// Handles a failure to make a credential.
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
        if kind == .accessToken, case .credentialsRefused = outcome { return Self.refusedPause }
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

    /// The time at which the next access token must be renewed, so that no push has to wait for a token.
    var nextRenewal: Instant? {
        var next: Instant?
        for credential in made.values where credential.kind == .accessToken {
            if let renewal = credential.cache.nextRenewal { next = min(next ?? renewal, renewal) }
        }
        return next
    }

    /// Returns orders for the access tokens that must be renewed now.
    mutating func renewals(now: Instant) -> [Order] {
        var orders: [Order] = []
        for number in made.keys.sorted() where made[number]?.kind == .accessToken {
            guard let renewal = made[number]?.cache.nextRenewal, renewal <= now else { continue }
            switch made[number]?.cache.wanted(now: now) {
            case .make, .useAndMake: orders.append(Order(number: number, origin: nil))
            case .use, .wait, .giveUp, nil: break
            }
        }
        return orders
    }
}
