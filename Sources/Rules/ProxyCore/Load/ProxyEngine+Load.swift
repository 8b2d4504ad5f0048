package import Addressing
import Bytes
import PushDelivery
import Registration
package import SIPGrammar
import Telemetry
package import Timekeeping

/// What is refused while more comes than can be served in time.
extension ProxyEngine {
    // MARK: Measurements

    /// A message was looked at so long after it had arrived at the machine.
    package func looked(after wait: Duration, now: Instant) { admission.looked(after: wait, now: now) }

    /// Messages were lost because nobody looked at them in time.
    package func messagesLost(now: Instant) { admission.lost(now: now) }

    /// Changes were on the disk so long after they were ordered.
    package func stored(after wait: Duration, now: Instant) { admission.stored(after: wait, now: now) }

    // MARK: Decisions

    /// Seconds after which a request over HTTP may come again; `nil` when it is served.
    package func refusesService(now: Instant) -> Int? {
        guard admission.isUnderPressure else { return nil }
        let lot = UInt32(truncatingIfNeeded: functions.random())
        guard admission.refuses(.service, lot: lot, now: now) else { return nil }
        noteRefusal(now: now)
        return Self.retryTime(lot)
    }

    /// Whether a request that has no transaction was refused. To be asked while there is pressure only.
    func isRefusedForLoad(_ incoming: IncomingRequest, now: Moment) -> Bool {
        let request = incoming.request
        guard let kind = kind(of: request) else { return false }
        let lot = Self.lot(of: request.callID, now: now.instant)
        guard admission.refuses(kind, lot: UInt32(truncatingIfNeeded: lot), now: now.instant) else { return false }
        noteRefusal(now: now.instant)
        counters.count(.rejectedOverload)
        if request.method == .invite { noteRefused(incoming, .serviceUnavailable, because: .overload, now: now) }
        let wait = Self.retryTime(UInt32(truncatingIfNeeded: lot >> 32))
        sendStateless(incoming, .serviceUnavailable, fields: [Self.retryAfter(seconds: wait)])
        return true
    }

    /// Whether anything is refused now: only then is it worth to look at a message before it is read.
    package var isUnderPressure: Bool { admission.isUnderPressure }

    /// The answer to a REGISTER that came over UDP and was not read; `nil` when it is to be read.
    package func refusal(
        of glance: RegisterGlance, in bytes: Span<UInt8>, from source: Endpoint, now: Instant
    ) -> [UInt8]? {
        guard let uri = glance.uri(in: bytes), let kind = kind(ofRegisterFor: uri) else { return nil }
        let lot = Self.lot(of: glance.callID(in: bytes), now: now)
        guard admission.refuses(kind, lot: UInt32(truncatingIfNeeded: lot), now: now) else { return nil }
        noteRefusal(now: now)
        counters.count(.rejectedOverload)
        counters.count(.requestRegister)
        counters.count(.response5xx)
        let high = UInt32(truncatingIfNeeded: lot >> 32)
        return glance.refusal(in: bytes, retryAfter: Self.retryTime(high), tag: high, source: source)
    }

    /// Who is admitted at a glance is admitted when his message is read.
    private static func lot(of callID: ByteString, now: Instant) -> UInt64 {
        var hasher = Hasher()
        callID.hash(into: &hasher)
        hasher.combine(now.nanoseconds / Admission.lotTime.nanoseconds)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    /// What kind of work a request is; `nil` for what is never refused.
    private func kind(of request: SIPRequest) -> Admission.Kind? {
        switch request.method {
        case .invite: request.to.tag == nil ? .newCall : nil
        case .register: kind(ofRegisterFor: request.to.uri)
        default: nil
        }
    }

    private func kind(ofRegisterFor uri: SIPURI) -> Admission.Kind? {
        guard let home = identity.home(of: uri), let aor = AddressOfRecord(uri, home: home) else { return .newDevice }
        // A call waits for one of the user's phones, and this may be it.
        if calls.shares[callee: aor.shareNumber].calls > 0 { return nil }
        return registrar.bindings.isKnown(aor) ? .refresh : .newDevice
    }

    /// Between 5 and 120 seconds, each as likely as any other, so that those who were refused together do not come back
    /// together.
    private static func retryTime(_ lot: UInt32) -> Int { 5 + Int(lot % 116) }

    // MARK: The log

    private func noteRefusal(now: Instant) {
        guard admission.refusingSince == nil else { return }
        admission.refusingSince = now
        admission.refusedBefore = counters[.rejectedOverload]
        _ = timers.schedule(.reliefDue, at: now + Self.shortestOverload)
        log.warning("overloaded, new work is refused", [.duration: .duration(admission.limit)])
    }

    /// Says that it is over, once nothing is refused any more.
    func reliefDue(now: Instant) {
        guard let since = admission.refusingSince else { return }
        admission.passed(now: now)
        guard !admission.isUnderPressure else {
            _ = timers.schedule(.reliefDue, at: now + Self.shortestOverload)
            return
        }
        admission.refusingSince = nil
        log.notice(
            "no longer overloaded",
            [
                .duration: .duration(now - since),
                .count: .number(Int(clamping: counters[.rejectedOverload] &- admission.refusedBefore)),
            ])
    }

    /// Of what comes and goes faster than that there are not two lines each time.
    private static let shortestOverload: Duration = .seconds(2)
}
