package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import Timekeeping

/// A call as a value: what another run of the program would need to go on with it, and what operators see of it.
package struct StoredCall: Hashable, Sendable {
    /// For ``ProxyEngine/callDismissed(_:with:now:)`` and for the next page; later calls have higher ones.
    package let id: UInt64
    package let aor: AddressOfRecord
    package let callRef: CallRef
    package let callID: ByteString
    package let fromTag: ByteString
    package let receivedAt: UnixTime
    /// The end of the hold.
    package let holdUntil: UnixTime
    /// Whether its caller may have phones woken.
    package let mayPush: Bool
    /// Where the INVITE came from, and the user who has shown a password for it.
    package let source: Flow
    package let sender: AddressOfRecord?
    /// The INVITE's bytes.
    package let request: ByteString
    package let branches: [Branch]

    package struct Branch: Hashable, Sendable {
        package enum Stage: UInt8, Hashable, Sendable {
            case waiting
            /// It has the INVITE, or is about to.
            case called
            case ended
        }

        package let stage: Stage
        package let device: DeviceID?
        /// See ``ForkBranch/contact``.
        package let contact: DeviceID?
        package let wasPushed, wasWoken, deviceKnows, hasMoved: Bool
        /// Its record in the timeline.
        package let record: RecordID?
    }

    /// Devices that are waited for.
    package var waiting: [DeviceID] { branches.filter { $0.stage == .waiting }.compactMap(\.device) }
    /// Devices that have the INVITE.
    package var ringing: [DeviceID] { branches.filter { $0.stage == .called }.compactMap { $0.contact ?? $0.device } }
}

extension StoredCall {
    /// `nil` for what is no call to a user of ours, or is over.
    init?(_ call: Call) {
        guard let offer = call.offer, call.fork.phase == .proceeding else { return nil }
        self.init(
            id: call.id.rawValue, aor: offer.aor, callRef: offer.ref, callID: offer.key.callID,
            fromTag: offer.key.fromTag, receivedAt: offer.receivedAt, holdUntil: offer.pushDeadline,
            mayPush: offer.mayPush, source: call.source, sender: call.sender, request: call.request,
            branches: call.fork.branches.map(Branch.init))
    }
}

extension StoredCall.Branch {
    init(_ branch: ForkBranch) {
        switch branch.state {
        case .waiting: stage = .waiting
        case .unsent, .resolving, .calling: stage = .called
        case .ended: stage = .ended
        }
        device = branch.device
        contact = branch.contact
        wasPushed = branch.wasPushed
        wasWoken = branch.wasWoken
        deviceKnows = branch.deviceKnows
        hasMoved = branch.hasMoved
        record = branch.record
    }
}
