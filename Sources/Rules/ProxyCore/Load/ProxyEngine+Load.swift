import AccessLimits
package import Addressing
import Bytes
import Calling
import LocationService
import PushDelivery
import Registration
import Routing
package import SIPGrammar
import Telemetry
package import Timekeeping

/// Refusals under overload, by ``Admission``.
extension ProxyEngine {
    // MARK: Measurements

    /// A message was read, `wait` after its arrival at the machine.
    package func looked(after wait: Duration, now: Instant) { access.admission.looked(after: wait, now: now) }

    /// Messages were lost because they were not read in time.
    package func messagesLost(now: Instant) { access.admission.lost(now: now) }

    /// Changes were persisted, `wait` after their commit was ordered.
    package func stored(after wait: Duration, now: Instant) { access.admission.stored(after: wait, now: now) }

    // MARK: Decisions

    /// Decides about a request over HTTP. The result is the Retry-After in seconds, or `nil` if the request is served.
    package func refusesService(now: Instant) -> Int? {
        guard access.admission.isUnderPressure else { return nil }
        let lot = UInt32(truncatingIfNeeded: functions.random())
        guard access.admission.refuses(.service, lot: lot, now: now) else { return nil }
        noteRefusal(now: now)
        return Self.retryTime(lot)
    }

    /// Refuses a request without a transaction if the load demands it, and returns whether it did. Callers ask only
    /// under pressure.
    func isRefusedForLoad(_ incoming: IncomingRequest, now: Moment) -> Bool {
        let request = incoming.request
        guard let kind = kind(of: request) else { return false }
        let lot = Self.lot(of: request.callID, now: now.instant)
        guard access.admission.refuses(kind, lot: UInt32(truncatingIfNeeded: lot), now: now.instant) else {
            return false
        }
        noteRefusal(now: now.instant)
        output.counters.count(.rejectedOverload)
        if request.method == .invite { noteRefused(incoming, .serviceUnavailable, because: .overload, now: now) }
        let wait = Self.retryTime(UInt32(truncatingIfNeeded: lot >> 32))
        sendStateless(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: wait)])
        return true
    }

    /// Whether any work is refused now. Only then is a message looked at before it is parsed.
    package var isUnderPressure: Bool { access.admission.isUnderPressure }

    /// The refusal of an unparsed REGISTER that came over UDP. `nil` if the REGISTER is admitted, and so will be
    /// parsed.
    package func refusal(
        of glance: RegisterGlance, in bytes: Span<UInt8>, from source: Endpoint, now: Instant
    ) -> [UInt8]? {
        guard let uri = glance.uri(in: bytes), let kind = kind(ofRegisterFor: uri) else { return nil }
        let lot = Self.lot(of: glance.callID(in: bytes), now: now)
        guard access.admission.refuses(kind, lot: UInt32(truncatingIfNeeded: lot), now: now) else { return nil }
        noteRefusal(now: now)
        output.counters.count(.rejectedOverload)
        output.counters.count(.requestRegister)
        output.counters.count(.response5xx)
        let high = UInt32(truncatingIfNeeded: lot >> 32)
        return glance.refusal(in: bytes, retryAfter: Self.retryTime(high), tag: high, source: source)
    }

    /// The lot of a request, from its Call-ID and the time. A REGISTER is judged before and after parsing, with the
    /// same lot each time.
    private static func lot(of callID: ByteString, now: Instant) -> UInt64 {
        var hasher = Hasher()
        callID.hash(into: &hasher)
        hasher.combine(now.nanoseconds / Admission.lotTime.nanoseconds)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// The kind of work that a request is. `nil` if the request is never refused.
    private func kind(of request: SIPRequest) -> Admission.Kind? {
        switch request.method {
        case .invite: request.to.tag == nil ? .newCall : nil
        case .register: kind(ofRegisterFor: request.to.uri)
        default: nil
        }
    }

    private func kind(ofRegisterFor uri: SIPURI) -> Admission.Kind? {
        guard let home = identity.home(of: uri), let aor = AddressOfRecord(uri, home: home) else { return .newDevice }
        // A call waits for one of the user's phones, and this REGISTER may come from that phone.
        if calls.shares[callee: aor.shareNumber].calls > 0 { return nil }
        return registrar.bindings.isKnown(aor) ? .refresh : .newDevice
    }

    /// A Retry-After between 5 and 120 seconds, evenly distributed. Senders that were refused together then retry at
    /// different times.
    private static func retryTime(_ lot: UInt32) -> Int { 5 + Int(lot % 116) }

    // MARK: The log

    private func noteRefusal(now: Instant) {
        guard access.admission.refused(after: output.counters[.rejectedOverload], now: now) else { return }
        _ = output.timers.schedule(.reliefDue, at: now + Self.shortestOverload)
        log.warning("overloaded, new work is refused", [.duration: .duration(access.admission.limit)])
    }

    /// Logs the end of the overload when nothing is refused any more.
    func reliefDue(now: Instant) {
        switch access.admission.mayBeRelieved(at: output.counters[.rejectedOverload], now: now) {
        case .notBegun: break
        case .notYet: _ = output.timers.schedule(.reliefDue, at: now + Self.shortestOverload)
        case .relieved(let after, let refused):
            log.notice("no longer overloaded", [.duration: .duration(after), .count: .number(refused)])
        }
    }

    /// The minimum time between the two log lines, so that a short overload does not fill the log.
    private static let shortestOverload: Duration = .seconds(2)
}
