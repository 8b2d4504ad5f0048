import Addressing
import SIPGrammar
import Telemetry
import Timekeeping

/// How many REGISTERs a second one source may send (T17.6). One over UDP may be invented, so it is counted apart from what comes
/// by connections.
struct RegisterLimit: Sendable {
    private var rate: SourceRate
    private var logLimit = LogRateLimit(burst: 5, per: .seconds(60))

    init(_ limits: LimitSettings) { rate = SourceRate(perSecond: limits.registersPerSource) }

    mutating func changed(_ limits: LimitSettings) { rate.changed(perSecond: limits.registersPerSource) }

    private static func source(of flow: Flow) -> Int {
        var hasher = Hasher()
        hasher.combine(flow.remote.address.source)
        hasher.combine(flow.transport.isReliable)
        return hasher.finalize()
    }

    /// Asks before a REGISTER is looked at, and counts nothing.
    ///
    /// - Parameters:
    ///   - flow: where the REGISTER came from.
    ///   - showsPassword: whether it may prove something. What does not is refused before it costs anything.
    ///   - now: the time.
    /// - Returns: how long the source has to wait; `nil` when its REGISTER is looked at.
    func wait(on flow: Flow, showsPassword: Bool, now: Instant) -> Duration? {
        rate.isOn ? rate.wait(Self.source(of: flow), isProved: showsPassword, now: now) : nil
    }

    /// A REGISTER has proved itself, or not.
    ///
    /// - Returns: how long the source has to wait, where it has proved nothing too often.
    mutating func came(on flow: Flow, isProved: Bool, now: Instant) -> Duration? {
        guard rate.isOn else { return nil }
        let source = Self.source(of: flow)
        guard !rate.asked(source, isProved: isProved, now: now) else { return nil }
        return rate.wait(source, isProved: isProved, now: now)
    }

    /// Says so, now and then.
    mutating func tell(_ log: Log, of flow: Flow, now: Instant) {
        guard let suppressed = logLimit.admit(now: now) else { return }
        log.warning(
            "too many REGISTERs from one source, they are refused",
            [
                .source: .described(flow.remote), .status: .number(503), .suppressed: .number(suppressed),
                .setting: .text("limits.registers-per-source"),
            ])
    }
}
