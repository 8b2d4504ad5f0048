import Timekeeping

/// The credentials of requests. A credential is a fixed key, or is made, kept for a while and renewed. Apps with the
/// same key share it.
///
/// This type does no input or output itself: it returns orders to make credentials, and receives their results.
package struct PushCredentials: Sendable {
    /// The source of an app's credential.
    package enum Source: Hashable, Sendable {
        /// The app needs no credential, or uses a certificate instead.
        case none
        case fixed(String)
        /// One of the made credentials, by its number.
        case made(Int)
    }

    package enum Kind: Hashable, Sendable {
        /// A signed token for Apple. Apple requires that it is used for at least 20 minutes and at most an hour.
        case apple
        /// An access token from Google's token service.
        case google
        /// A signed token for each server that push tokens name (RFC 8292).
        case webPush
    }

    /// An order to make a credential: its number and, for web push, its server.
    package struct Order: Hashable, Sendable {
        package let number: Int
        package let origin: String?
    }

    enum Answer: Hashable {
        /// The value of `authorization`, if one is needed, and an order if a new one must be made meanwhile.
        case ready(String?, renewal: Order? = nil)
        /// The push must wait. The credential is already being made, or must be made now if `isNew`.
        case later(Order, isNew: Bool)
        /// The credential is missing, and the push ends with the outcome. `problem` is the reason, unless an answer to
        /// a push was the reason.
        case none(PushOutcome, problem: String?)
    }

    private struct Made {
        let kind: Kind
        var cache: CredentialCache
        /// Why the credential is missing, in words for the operator; `nil` if it is available.
        var problem: String?
        /// The tokens for web push by their server.
        var tokens: [String: OriginToken] = [:]
        var ordered: Set<String> = []
    }

    private struct OriginToken {
        let value: String
        let madeAt: UnixTime
        let end: Instant
    }

    /// The source of each app's credential, by the app's place in the directory.
    private var sources: [Source]
    /// The made credentials by their numbers. A number is never used for another credential.
    private var made: [Int: Made]

    private static let appleLife: Duration = .seconds(40 * 60)
    package static let webPushLife: Duration = .seconds(12 * 3600)
    private static let originLimit = 256
    /// The pause before the next request for a credential: after Google refused one, and after any other failure.
    private static let refusedPause: Duration = .seconds(60)
    private static let pause: Duration = .seconds(2)

    /// - Parameters:
    ///   - sources: the source of each app's credential, by the app's place in the directory.
    ///   - kinds: the kinds of the made credentials, by their numbers.
    package init(_ sources: [Source] = [], kinds: [Kind] = []) {
        self.init(sources, kinds: Dictionary(uniqueKeysWithValues: zip(kinds.indices, kinds)))
    }

    package init(_ sources: [Source], kinds: [Int: Kind]) {
        self.sources = sources
        made = kinds.mapValues { kind in
            Made(kind: kind, cache: CredentialCache(renewedBeforeEnd: kind == .google ? .seconds(300) : .zero))
        }
    }

    /// Takes other sources. Credentials whose numbers stay are kept, and the others are forgotten.
    mutating func changed(to other: PushCredentials) {
        sources = other.sources
        made = other.made.merging(made.filter { other.made[$0.key] != nil }) { $1 }
    }

    /// Whether a credential of this number can still be made.
    func has(_ number: Int) -> Bool { made[number] != nil }

    /// The credential for an app's request to a server.
    mutating func wanted(by app: PushApp.ID, at origin: String?, now: Moment) -> Answer {
        guard sources.indices.contains(app.index) else { return .ready(nil) }
        switch sources[app.index] {
        case .none: return .ready(nil)
        case .fixed(let value): return .ready(value)
        case .made(let number):
            guard let kind = made[number]?.kind else { return .ready(nil) }
            guard kind == .webPush else { return shared(number, now: now.instant) }
            // Without a server no request will be sent, so no credential is needed.
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
        // Services check the token by their clocks. Our own clock may have been set since the token was made.
        if let token = made[number]?.tokens[origin], now.instant < token.end,
            (Duration.zero...Self.webPushLife).contains(now.date - token.madeAt)
        {
            return .ready(token.value)
        }
        return .later(
            Order(number: number, origin: origin), isNew: made[number]?.ordered.insert(origin).inserted == true)
    }

    /// The credential was made. `life` is its lifetime, if the issuer reported it.
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

    /// The credential could not be made.
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

    /// The provider refused a push of the app because of this credential.
    mutating func refused(_ value: String?, by app: PushApp.ID, now: Instant) {
        guard let value, sources.indices.contains(app.index), case .made(let number) = sources[app.index] else {
            return
        }
        made[number]?.cache.refused(value, now: now)
    }

    // MARK: Ahead of time

    /// When to fetch the next credential from a token service, so that no push has to wait for it.
    var nextRenewal: Instant? {
        var next: Instant?
        for credential in made.values where credential.kind == .google {
            if let renewal = credential.cache.nextRenewal { next = min(next ?? renewal, renewal) }
        }
        return next
    }

    /// The credentials to fetch now.
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
