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
    private let sources: [Source]
    private var made: [Made]

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
        self.sources = sources
        made = kinds.map { kind in
            Made(kind: kind, cache: CredentialCache(renewedBeforeEnd: kind == .google ? .seconds(300) : .zero))
        }
    }

    /// The credential for an app's request to a server.
    mutating func wanted(by app: PushApp.ID, at origin: String?, now: Moment) -> Answer {
        guard sources.indices.contains(app.index) else { return .ready(nil) }
        switch sources[app.index] {
        case .none: return .ready(nil)
        case .fixed(let value): return .ready(value)
        case .made(let number):
            guard made[number].kind == .webPush else { return shared(number, now: now.instant) }
            // Without a server no request will be sent, so no credential is needed.
            return origin.map { token(number, for: $0, now: now) } ?? .ready(nil)
        }
    }

    private mutating func shared(_ number: Int, now: Instant) -> Answer {
        let order = Order(number: number, origin: nil)
        switch made[number].cache.wanted(now: now) {
        case .use(let value): return .ready(value)
        case .useAndMake(let value): return .ready(value, renewal: order)
        case .make: return .later(order, isNew: true)
        case .wait: return .later(order, isNew: false)
        case .giveUp(let outcome): return .none(outcome, problem: made[number].problem)
        }
    }

    private mutating func token(_ number: Int, for origin: String, now: Moment) -> Answer {
        // Services check the token by their clocks. Our own clock may have been set since the token was made.
        if let token = made[number].tokens[origin], now.instant < token.end,
            (Duration.zero...Self.webPushLife).contains(now.date - token.madeAt)
        {
            return .ready(token.value)
        }
        return .later(
            Order(number: number, origin: origin), isNew: made[number].ordered.insert(origin).inserted)
    }

    /// The credential was made. `life` is its lifetime, if the issuer reported it.
    mutating func made(_ order: Order, _ value: String, life: Duration?, now: Moment) {
        guard made.indices.contains(order.number) else { return }
        made[order.number].problem = nil
        guard let origin = order.origin else {
            return made[order.number].cache.made(value, life: life ?? Self.appleLife, now: now.instant)
        }
        made[order.number].ordered.remove(origin)
        if made[order.number].tokens.count >= Self.originLimit { made[order.number].tokens = [:] }
        made[order.number].tokens[origin] = OriginToken(
            value: value, madeAt: now.date, end: now.instant + Self.webPushLife)
    }

    /// The credential could not be made.
    mutating func failed(_ order: Order, _ outcome: PushOutcome, problem: String?, now: Instant) {
        guard made.indices.contains(order.number) else { return }
        if let problem { made[order.number].problem = problem }
        if let origin = order.origin {
            made[order.number].ordered.remove(origin)
        } else {
            made[order.number].cache.failed(outcome, pause: pause(after: outcome, order.number), now: now)
        }
    }

    private func pause(after outcome: PushOutcome, _ number: Int) -> Duration {
        if made[number].kind == .google, case .credentialsRefused = outcome { return Self.refusedPause }
        return Self.pause
    }

    /// The provider refused a push of the app because of this credential.
    mutating func refused(_ value: String?, by app: PushApp.ID, now: Instant) {
        guard let value, sources.indices.contains(app.index), case .made(let number) = sources[app.index] else {
            return
        }
        made[number].cache.refused(value, now: now)
    }

    // MARK: Ahead of time

    /// When to fetch the next credential from a token service, so that no push has to wait for it.
    var nextRenewal: Instant? {
        var next: Instant?
        for credential in made where credential.kind == .google {
            if let renewal = credential.cache.nextRenewal { next = min(next ?? renewal, renewal) }
        }
        return next
    }

    /// The credentials to fetch now.
    mutating func renewals(now: Instant) -> [Order] {
        var orders: [Order] = []
        for number in made.indices where made[number].kind == .google {
            guard let renewal = made[number].cache.nextRenewal, renewal <= now else { continue }
            switch made[number].cache.wanted(now: now) {
            case .make, .useAndMake: orders.append(Order(number: number, origin: nil))
            case .use, .wait, .giveUp: break
            }
        }
        return orders
    }
}
