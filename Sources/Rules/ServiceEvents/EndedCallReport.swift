package import Addressing
package import Bytes
package import Calling
package import PushDelivery
package import Registration
package import Timekeeping

/// A call for a user that has got its final response, for traces and events.
package struct EndedCallReport: Sendable {
    package let ref: CallRef
    package let callID: ByteString
    package let aor: AddressOfRecord
    package let receivedAt: UnixTime
    /// The time at which the call was received, by the monotonic clock. After a restart of the daemon, this time can be
    /// wrong.
    package let began: Instant
    package let ended: Instant
    /// The time ``ended`` by the wall clock.
    package let endedAt: UnixTime
    package let code: CallCode
    package let status: UInt16
    /// The phone that answered the call; `nil` if no phone answered.
    package let device: DeviceID?
    /// The number of phones to which the call was offered.
    package let count: Int

    package init(
        ref: CallRef, callID: ByteString, aor: AddressOfRecord, receivedAt: UnixTime, began: Instant, ended: Instant,
        endedAt: UnixTime, code: CallCode, status: UInt16, device: DeviceID?, count: Int
    ) {
        self.ref = ref
        self.callID = callID
        self.aor = aor
        self.receivedAt = receivedAt
        self.began = began
        self.ended = ended
        self.endedAt = endedAt
        self.code = code
        self.status = status
        self.device = device
        self.count = count
    }
}
