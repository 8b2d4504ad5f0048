import Bytes
import Timekeeping

/// The keys of one issuer, and when they are read again: by time, and when a token names an unknown key.
///
/// The last keys count while they cannot be read. Strangers choose the key that a token names, so such tokens cause one
/// question in ``pause`` at most.
struct BearerKeyring: Sendable {
    private(set) var keys: [BearerKey] = []
    private(set) var isAsking = false
    /// Whether the last question failed.
    private(set) var isAway = false
    /// When the keys are to be read; `nil` while they are being read.
    private(set) var due: Instant? = .distantPast
    private var lastAsked: Instant?
    private var retry = BearerKeyring.firstRetry
    private let refresh: Duration

    /// The least time between questions that tokens cause.
    static let pause: Duration = .seconds(30)
    private static let firstRetry: Duration = .seconds(2)
    /// The maximum number of keys of one issuer that are tried for a token.
    private static let tried = 4

    init(refresh: Duration) { self.refresh = refresh }

    /// The keys that may have signed a token. A key without a name fits each name.
    func candidates(_ algorithm: BearerKey.Algorithm, named id: ByteString?) -> [BearerKey] {
        let fitting = keys.filter { key in
            key.algorithm == algorithm && (id == nil || key.id == nil || key.id == id)
        }
        return Array(fitting.prefix(Self.tried))
    }

    /// A token needs a key that is not here.
    ///
    /// - Returns: whether the keys are being read, so that the token can be judged soon.
    mutating func want(now: Instant) -> Bool {
        if isAsking { return true }
        if let lastAsked, now - lastAsked < Self.pause { return false }
        due = now
        return true
    }

    /// Whether the keys must be read now. If so, the question counts as asked.
    mutating func takeQuestion(now: Instant) -> Bool {
        guard !isAsking, let due, due <= now else { return false }
        isAsking = true
        lastAsked = now
        self.due = nil
        return true
    }

    mutating func received(_ keys: [BearerKey], now: Instant) {
        self.keys = keys
        isAsking = false
        isAway = false
        retry = Self.firstRetry
        due = now + refresh
    }

    mutating func failed(now: Instant) {
        isAsking = false
        isAway = true
        due = now + retry
        retry = min(retry * 2, refresh)
    }
}
