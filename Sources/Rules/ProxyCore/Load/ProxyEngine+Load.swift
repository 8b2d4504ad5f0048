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

/// Refuses requests while the daemon is overloaded, as ``Admission`` decides.
extension ProxyEngine {
    // MARK: Measurements

    /// Notes how long a message waited in the kernel before the daemon read it.
    package func looked(after wait: Duration, now: Instant) { access.admission.looked(after: wait, now: now) }

    /// Notes that the kernel dropped messages because the daemon did not read them in time.
    package func messagesLost(now: Instant) { access.admission.lost(now: now) }

    /// Notes how long the store took to commit changes.
    package func stored(after wait: Duration, now: Instant) { access.admission.stored(after: wait, now: now) }

    // MARK: Decisions

    /// The Retry-After in seconds for an HTTP request that an overloaded daemon refuses; `nil` if the daemon serves the
    /// request.
    package func refusesService(now: Instant) -> Int? {
        guard access.admission.isUnderPressure else { return nil }
        let lot = UInt32(truncatingIfNeeded: functions.random())
        guard access.admission.refuses(.service, lot: lot, now: now) else { return nil }
        noteRefusal(now: now)
        return Self.retryTime(lot)
    }

    /// Refuses a SIP request statelessly if the daemon is overloaded, and returns whether the request was refused.
    /// ``isRefusedForLoad(_:now:)`` may be called only while ``isUnderPressure`` is true.
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

    /// Whether the daemon now refuses some requests because of overload.
    package var isUnderPressure: Bool { access.admission.isUnderPressure }

    /// The response by which an overloaded daemon refuses a REGISTER over UDP before parsing; `nil` if the REGISTER
    /// must be parsed.
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

    /// A hash of the Call-ID and the time, which decides whether an overloaded daemon refuses the request. A REGISTER
    /// has the same hash before and after parsing, so the decision about its refusal stays the same.
    private static func lot(of callID: ByteString, now: Instant) -> UInt64 {
        var hasher = Hasher()
        callID.hash(into: &hasher)
        hasher.combine(now.nanoseconds / Admission.lotTime.nanoseconds)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// The kind of work that a request causes; `nil` if the daemon serves the request even under overload.
    private func kind(of request: SIPRequest) -> Admission.Kind? {
        switch request.method {
        case .invite: request.to.tag == nil ? .newCall : nil
        case .register: kind(ofRegisterFor: request.to.uri)
        default: nil
        }
    }

    private func kind(ofRegisterFor uri: SIPURI) -> Admission.Kind? {
        guard let home = identity.home(of: uri), let aor = AddressOfRecord(uri, home: home) else { return .newDevice }
        // A REGISTER of a user with a waiting call is never refused, because the call may wait for the REGISTER.
        if calls.shares[callee: aor.shareNumber].calls > 0 { return nil }
        return registrar.bindings.isKnown(aor) ? .refresh : .newDevice
    }

    /// A Retry-After between 5 and 120 seconds, evenly distributed, so that refused senders retry at different times.
    private static func retryTime(_ lot: UInt32) -> Int { 5 + Int(lot % 116) }

    // MARK: The log

    private func noteRefusal(now: Instant) {
        guard access.admission.refused(after: output.counters[.rejectedOverload], now: now) else { return }
        _ = output.timers.schedule(.reliefDue, at: now + Self.shortestOverload)
        log.warning("the daemon is overloaded and refuses new requests", [.duration: .duration(access.admission.limit)])
    }

    /// If the overload has ended, logs the end; otherwise checks again after two seconds.
    func reliefDue(now: Instant) {
        switch access.admission.mayBeRelieved(at: output.counters[.rejectedOverload], now: now) {
        case .notBegun: break
        case .notYet: _ = output.timers.schedule(.reliefDue, at: now + Self.shortestOverload)
        case .relieved(let after, let refused):
            log.notice(
                "the daemon is no longer overloaded and accepts new requests",
                [.duration: .duration(after), .count: .number(refused)])
        }
    }

    /// The minimum time between the log lines about the start and the end of an overload, so that short overloads do
    /// not flood the log.
    private static let shortestOverload: Duration = .seconds(2)
}
