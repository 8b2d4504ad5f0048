import Bytes
import Timekeeping

/// One token issuer's keys, which are read again at intervals and when a token names an unknown key.
///
/// If the keys cannot be read again, the last keys stay valid. Tokens with unknown keys, which anybody can send, cause
/// at most one reading of the keys within each ``pause``.
struct BearerKeyring: Sendable {
    private(set) var keys: [BearerKey] = []
    private(set) var isAsking = false
    /// Whether the last attempt to read the issuer's keys failed.
    private(set) var isAway = false
    /// When the keys must be read next; `nil` while the keys are being read.
    private(set) var due: Instant? = .distantPast
    private var lastAsked: Instant?
    private var retry = BearerKeyring.firstRetry
    private let refresh: Duration

    /// The minimum time between the last reading of the keys and a reading because of a token.
    static let pause: Duration = .seconds(30)
    private static let firstRetry: Duration = .seconds(2)
    /// The maximum number of an issuer's keys that are tried for one token.
    private static let tried = 4

    init(refresh: Duration) { self.refresh = refresh }

    /// The keys that may have signed a token with the given algorithm and key name. A key without a name fits every
    /// token.
    func candidates(_ algorithm: BearerKey.Algorithm, named id: ByteString?) -> [BearerKey] {
        let fitting = keys.filter { key in
            key.algorithm == algorithm && (id == nil || key.id == nil || key.id == id)
        }
        return Array(fitting.prefix(Self.tried))
    }

    /// Orders the keys to be read soon, because a token names an unknown key.
    ///
    /// - Returns: whether the keys are being read or will be read now, so that the token can be checked soon.
    mutating func want(now: Instant) -> Bool {
        if isAsking { return true }
        if let lastAsked, now - lastAsked < Self.pause { return false }
        due = now
        return true
    }

    /// Whether the keys must be read now. If the result is true, the caller must report the result of the reading to
    /// ``received(_:now:)`` or ``failed(now:)``.
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
