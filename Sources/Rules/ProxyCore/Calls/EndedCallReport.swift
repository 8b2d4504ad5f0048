package import Addressing
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Timekeeping

/// A call for a user that has got its final response, for traces.
package struct EndedCallReport: Sendable {
    package let ref: CallRef
    package let callID: ByteString
    package let aor: AddressOfRecord
    package let receivedAt: UnixTime
    /// The time ``receivedAt`` by the monotonic clock. After a restart of the daemon, this time can be wrong.
    package let began: Instant
    package let ended: Instant
    package let code: CallCode
    package let status: UInt16
    /// The phone that answered the call; `nil` if no phone answered.
    package let device: DeviceID?
    /// The number of phones to which the call was offered.
    package let count: Int
}

extension ProxyEngine {
    /// Begins or ends to report the end of each call for users.
    package func reportsEnds(_ isOn: Bool) { output.reportsEnds = isOn }

    func reportEnd(of call: ProxiedRequest, now: Moment) {
        guard let userCall = call.userCall else { return }
        // Both times were computed from the arrival of the INVITE.
        let began = userCall.holdUntil + (userCall.receivedAt - userCall.pushDeadline)
        let answered = call.fork.branches.first { $0.end == .succeeded }
        act(
            .callEnded(
                EndedCallReport(
                    ref: userCall.ref, callID: userCall.key.callID, aor: userCall.aor, receivedAt: userCall.receivedAt,
                    began: began, ended: now.instant, code: code(of: call), status: call.finalStatus,
                    device: answered?.addressee, count: call.fork.branches.count { $0.device != nil })))
    }
}
