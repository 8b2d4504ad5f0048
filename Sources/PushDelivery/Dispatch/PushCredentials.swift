import Timekeeping

/// What requests of each app must carry: a fixed key, or a credential that is made, kept and made anew. Apps with the same
/// key share it.
///
/// Pure: says what has to be made, and is told what came of it.
package struct PushCredentials: Sendable {
    /// Where an app's credential comes from.
    package enum Source: Hashable, Sendable {
        /// A certificate stands for it, or nothing is asked for.
        case none
        case fixed(String)
        /// One of those that are made, by its number.
        case made(Int)
    }

    package enum Kind: Hashable, Sendable {
        /// A signed token. Apple wants it used for 20 minutes at least and for an hour at most.
        case apple
        /// An access token, for which Google's token service is asked.
        case google
        /// A signed token for each server that tokens name (RFC 8292).
        case webPush
    }

    /// One that is to be made: which, and for web push for which server.
    package struct Order: Hashable, Sendable {
        package let number: Int
        package let origin: String?
    }

    enum Answer: Hashable {
        /// The value of `authorization`, if one is needed, and perhaps another that is to be made meanwhile.
        case ready(String?, renewal: Order? = nil)
        /// It is being made, or is to be made now.
        case later(Order, isNew: Bool)
        /// There is none; why, where that is not a provider's answer to a push.
        case none(PushOutcome, problem: String?)
    }

    private struct Made {
        let kind: Kind
        var cache: CredentialCache
        /// Why there is none, in words for the operator; `nil` once there is one.
        var problem: String?
        /// Of web push, by the server.
        var tokens: [String: OriginToken] = [:]
        var ordered: Set<String> = []
    }

    private struct OriginToken {
        let value: String
        let madeAt: UnixTime
        let end: Instant
    }

    /// By the app's place in the directory.
    private let sources: [Source]
    private var made: [Made]

    private static let appleLife: Duration = .seconds(40 * 60)
    package static let webPushLife: Duration = .seconds(12 * 3600)
    private static let originLimit = 256
    /// Before Google is asked again after it refused us; and after any other failure.
    private static let refusedPause: Duration = .seconds(60)
    private static let pause: Duration = .seconds(2)

    /// - Parameters:
    ///   - sources: of each app, by its place in the directory.
    ///   - kinds: of those that are made, by their numbers.
    package init(_ sources: [Source] = [], kinds: [Kind] = []) {
        self.sources = sources
        made = kinds.map { kind in
            Made(kind: kind, cache: CredentialCache(renewedBeforeEnd: kind == .google ? .seconds(300) : .zero))
        }
    }

    /// What an app's request to a server must carry.
    mutating func wanted(by app: PushApp.ID, at origin: String?, now: Moment) -> Answer {
        guard sources.indices.contains(app.index) else { return .ready(nil) }
        switch sources[app.index] {
        case .none: return .ready(nil)
        case .fixed(let value): return .ready(value)
        case .made(let number):
            guard made[number].kind == .webPush else { return shared(number, now: now.instant) }
            // Without a server there will be no request.
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
        // Services judge by their clocks: ours may have been set since.
        if let token = made[number].tokens[origin], now.instant < token.end,
            (Duration.zero...Self.webPushLife).contains(now.date - token.madeAt)
        {
            return .ready(token.value)
        }
        return .later(
            Order(number: number, origin: origin), isNew: made[number].ordered.insert(origin).inserted)
    }

    /// It was made; `life` where whoever gave it says so.
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

    /// It could not be made.
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

    /// The provider refused a push of the app that carried this one.
    mutating func refused(_ value: String?, by app: PushApp.ID, now: Instant) {
        guard let value, sources.indices.contains(app.index), case .made(let number) = sources[app.index] else {
            return
        }
        made[number].cache.refused(value, now: now)
    }

    // MARK: Ahead of time

    /// When one should be made that has to be fetched, before pushes wait for it.
    var nextRenewal: Instant? {
        var next: Instant?
        for credential in made where credential.kind == .google {
            if let renewal = credential.cache.nextRenewal { next = min(next ?? renewal, renewal) }
        }
        return next
    }

    /// Those whose time for that has come.
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
