package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import Timekeeping

/// A proxied INVITE as the journal stores it for a restart, and as lists for operators show it.
package struct StoredCall: Hashable, Sendable {
    /// The call's id in the journal and in operators' commands; later calls have higher ids.
    package let id: UInt64
    /// The called user and the end of the wait for phones; `nil` for an INVITE to the upstream or inside a dialog.
    package let userCall: StoredUserCall?
    package let receivedAt: UnixTime
    /// The flow on which the INVITE came, and whether a trusted peer sent the INVITE (`isTrusted`).
    package let source: Flow
    package let isTrusted: Bool
    /// The authenticated sender of the INVITE.
    package let sender: AddressOfRecord?
    /// The INVITE's bytes; empty in a list for operators.
    package let request: ByteString
    /// The caller's final response, other than 2xx, that has no ACK yet; empty if no such response was sent.
    package var final: ByteString
    package var branches: [Branch]

    package init(
        id: UInt64, userCall: StoredUserCall?, receivedAt: UnixTime, source: Flow, isTrusted: Bool,
        sender: AddressOfRecord?,
        request: ByteString, final: ByteString = .empty, branches: [Branch] = []
    ) {
        self.id = id
        self.userCall = userCall
        self.receivedAt = receivedAt
        self.source = source
        self.isTrusted = isTrusted
        self.sender = sender
        self.request = request
        self.final = final
        self.branches = branches
    }

    package struct Branch: Hashable, Sendable {
        package enum Stage: String, Hashable, Sendable {
            case waiting
            /// The branch has sent the INVITE, or will send the INVITE now.
            case called
            case ended
            /// The device's turn to ring has not come.
            case delayed
        }

        package let stage: Stage
        package let device: DeviceID?
        /// The contact that got the INVITE instead of the branch's device: see ``ForkBranch/contact``.
        package let contact: DeviceID?
        /// Whether the branch's push was sent to the provider (`wasPushed`), and whether the provider has accepted the
        /// push (`wasWoken`).
        package let wasPushed, wasWoken: Bool
        package let deviceKnows, hasMoved: Bool
        /// The branch's timeline record in this run of the daemon; `nil` for a branch from the journal.
        package let record: RecordID?
        /// The code of the branch's push; the code is stored even after the push has ended.
        package let code: PushCode?
        package let end: ForkBranch.End?
        /// The last INVITE of the branch. In a change of a call, `nil` means that the stored INVITE stays unchanged.
        package var sent: SentINVITE?
        /// The Vias of earlier INVITEs that the phone may still answer, newest first.
        package let former: [ByteString]
        /// Whether the branch waited for its phone at another node, which has ended. The call is offered to the phone again,
        /// because the phone may have registered at the ended node after the push.
        package var isOfferedAgain = false

        package init(
            stage: Stage, device: DeviceID?, contact: DeviceID?, wasPushed: Bool, wasWoken: Bool, deviceKnows: Bool,
            hasMoved: Bool, record: RecordID?, code: PushCode?, end: ForkBranch.End?, sent: SentINVITE? = nil,
            former: [ByteString] = []
        ) {
            self.stage = stage
            self.device = device
            self.contact = contact
            self.wasPushed = wasPushed
            self.wasWoken = wasWoken
            self.deviceKnows = deviceKnows
            self.hasMoved = hasMoved
            self.record = record
            self.code = code
            self.end = end
            self.sent = sent
            self.former = former
        }
    }

    /// The values with which a restarted daemon can send the same INVITE again.
    package struct SentINVITE: Hashable, Sendable {
        /// The topmost Via of the INVITE; its branch parameter identifies the transaction for the phone.
        package let via: ByteString
        package let requestURI: ByteString
        /// The values of the Route header fields of the INVITE.
        package let routes: [ByteString]
        package var flow: Flow

        package init(via: ByteString, requestURI: ByteString, routes: [ByteString], flow: Flow) {
            self.via = via
            self.requestURI = requestURI
            self.routes = routes
            self.flow = flow
        }
    }

    /// Whether the call is to one of the daemon's users. A branch without a device leads to the forward destination of
    /// a call to one of the daemon's users.
    var isUserCall: Bool { userCall != nil }

    /// Whether the store of a cluster has the call for other nodes. The store has each call to a user until its end, if
    /// the caller is a trusted peer or a phone whose password was checked. The node that takes over the calls of this
    /// node continues the call, whether phones ring or the call waits for them.
    package var isInStore: Bool { isUserCall && final.isEmpty && (isTrusted || sender != nil) }

    /// The devices that the call waits for.
    package var waiting: [DeviceID] { branches.filter { $0.stage == .waiting }.compactMap(\.device) }
    /// The devices that ring later than others, and have not begun to ring.
    package var delayed: [DeviceID] { branches.filter { $0.stage == .delayed }.compactMap(\.device) }
    /// The devices to which the daemon has sent the INVITE.
    package var ringing: [DeviceID] { branches.filter { $0.stage == .called }.compactMap { $0.contact ?? $0.device } }
}

/// The called user, and the end of the call's wait for phones: see ``UserCall``.
package struct StoredUserCall: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let callRef: CallRef
    /// The Call-ID and the From tag. Both are empty in the journal, because the stored INVITE contains them.
    package let callID, fromTag: ByteString
    /// The time at which the call stops waiting for phones.
    package let holdUntil: UnixTime
    /// Whether the rate limits allow the caller to wake phones (T11.2).
    package let mayPush: Bool

    package init(
        aor: AddressOfRecord, callRef: CallRef, callID: ByteString, fromTag: ByteString, holdUntil: UnixTime,
        mayPush: Bool
    ) {
        self.aor = aor
        self.callRef = callRef
        self.callID = callID
        self.fromTag = fromTag
        self.holdUntil = holdUntil
        self.mayPush = mayPush
    }
}

/// A change of a call for the journal, with the id of the call.
package indirect enum CallChange: Sendable {
    case begun(StoredCall)
    /// A branch is new or has changed; if `sent` is `nil`, the stored INVITE of the branch stays.
    case branch(call: UInt64, number: Int, StoredCall.Branch)
    /// The caller got a final response other than 2xx.
    case final(call: UInt64, [UInt8])
    /// The call is removed from the journal, because neither the caller nor a phone needs the call any more.
    case over(call: UInt64)
    /// A user's list of missed calls has changed; the store may get the same change only after the end of the call.
    case missed(StoredBucketChange)
}

extension StoredCall {
    /// Creates a call for operators' lists; `nil` if the call has ended, or if the callee is not one of the daemon's
    /// users.
    package init?(_ call: ProxiedRequest) {
        guard let userCall = call.userCall else { return nil }
        self.init(call, .empty, receivedAt: userCall.receivedAt) { _ in nil }
    }

    /// Creates a call for the journal, with the codes of its pushes; `nil` if the call has ended.
    package init?(_ call: ProxiedRequest, _ request: ByteString, receivedAt: UnixTime, code: (PushID) -> PushCode?) {
        guard call.fork.phase == .proceeding else { return nil }
        self.init(
            id: call.id.rawValue, userCall: call.userCall.map(StoredUserCall.init), receivedAt: receivedAt,
            source: call.source,
            isTrusted: call.isTrusted, sender: call.sender, request: request,
            branches: call.fork.branches.map { Branch($0, code: $0.push.flatMap(code)) })
    }
}

extension StoredUserCall {
    fileprivate init(_ userCall: UserCall) {
        self.init(
            aor: userCall.aor, callRef: userCall.ref, callID: userCall.key.callID, fromTag: userCall.key.fromTag,
            holdUntil: userCall.pushDeadline, mayPush: userCall.mayPush)
    }
}

extension StoredCall.Branch {
    package init(_ branch: ForkBranch, code: PushCode?, sent: StoredCall.SentINVITE? = nil) {
        stage = branch.stage
        device = branch.device
        contact = branch.contact
        wasPushed = branch.wasPushed
        wasWoken = branch.wasWoken
        deviceKnows = branch.deviceKnows
        hasMoved = branch.hasMoved
        record = branch.record
        self.code = code
        end = branch.end
        self.sent = sent
        former = []
    }
}

extension StoredCall {
    /// The maximum number of earlier INVITEs that are kept because a phone may still answer one of them.
    private static let longestPast = 8

    /// Applies the next entry of the journal to the call.
    package mutating func apply(_ change: CallChange) {
        switch change {
        case .branch(_, let number, let branch):
            if number < branches.count {
                branches[number] = branch.following(branches[number], keeping: Self.longestPast)
            } else if number == branches.count {
                branches.append(branch)
            }
        case .final(_, let bytes): final = ByteString(bytes)
        case .begun, .over, .missed: break
        }
    }
}

extension StoredCall.Branch {
    /// The stored branch after a change. The INVITE and the push code stay unless the change has new ones.
    fileprivate func following(_ old: StoredCall.Branch, keeping limit: Int) -> StoredCall.Branch {
        let past = sent == nil ? old.former : Array(([old.sent?.via].compactMap(\.self) + old.former).prefix(limit))
        return StoredCall.Branch(
            stage: stage, device: device ?? old.device, contact: contact, wasPushed: wasPushed, wasWoken: wasWoken,
            deviceKnows: deviceKnows, hasMoved: hasMoved, record: nil, code: code ?? old.code, end: end,
            sent: sent ?? old.sent, former: past)
    }
}
