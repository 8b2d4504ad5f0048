package import Addressing
package import ProxyPolicy
import SIPGrammar
package import Telemetry
package import Timekeeping

/// Limits the number of REGISTERs per second from one source (T17.6).
///
/// UDP and connections are counted separately, because the source address of a datagram can be forged.
package struct RegisterLimit: Sendable {
    private var rate: SourceRate
    private var logLimit = LogRateLimit(burst: 5, per: .seconds(60))

    package init(_ limits: LimitSettings) { rate = SourceRate(perSecond: limits.registersPerSource) }

    package mutating func changed(_ limits: LimitSettings) { rate.changed(perSecond: limits.registersPerSource) }

    private static func source(of flow: Flow) -> Int {
        var hasher = Hasher()
        hasher.combine(flow.remote.address.source)
        hasher.combine(flow.transport.isReliable)
        return hasher.finalize()
    }

    /// How long a source must wait before the daemon processes its REGISTER; `nil` if the daemon processes the REGISTER
    /// now.
    ///
    /// A REGISTER without credentials has a stricter rate limit. ``came(on:isProved:now:)`` counts the REGISTER after
    /// the check of its password.
    package func wait(on flow: Flow, showsPassword: Bool, now: Instant) -> Duration? {
        rate.isOn ? rate.wait(Self.source(of: flow), isProved: showsPassword, now: now) : nil
    }

    /// Counts a REGISTER, and returns how long its source must wait if the REGISTER exceeds the limit.
    ///
    /// The parameter `isProved` says whether the sender has authenticated.
    package mutating func came(on flow: Flow, isProved: Bool, now: Instant) -> Duration? {
        guard rate.isOn else { return nil }
        let source = Self.source(of: flow)
        guard !rate.asked(source, isProved: isProved, now: now) else { return nil }
        return rate.wait(source, isProved: isProved, now: now)
    }

    /// Logs, at most five times a minute, that REGISTERs are refused.
    package mutating func tell(_ log: Log, of flow: Flow, now: Instant) {
        guard let suppressed = logLimit.admit(now: now) else { return }
        log.warning(
            "too many REGISTERs came from one source address, so the daemon refuses further REGISTERs from this address",
            [
                .source: .described(flow.remote), .status: .number(503), .suppressed: .number(suppressed),
                .setting: .text("limits.registers-per-source"),
            ])
    }
}
