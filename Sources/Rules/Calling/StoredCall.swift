package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import Timekeeping

/// An INVITE as a value. Another run of the daemon continues the call from this value, and operators see it.
package struct StoredCall: Hashable, Sendable {
    /// The call's number in the journal, for pages of lists and for ``ProxyEngine/callEndedByOperator(_:with:now:)``. Later
    /// calls have higher numbers.
    package let id: UInt64
    /// The offer, for a call to one of our users. An INVITE to the upstream or inside a dialog has none.
    package let userCall: StoredUserCall?
    package let receivedAt: UnixTime
    /// The flow that the INVITE came on; `isTrusted` says whether a trusted peer sent the INVITE.
    package let source: Flow
    package let isTrusted: Bool
    /// The user who has shown a password for the INVITE.
    package let sender: AddressOfRecord?
    /// The INVITE's bytes; empty for operators.
    package let request: ByteString
    /// The final response other than 2xx that the caller got and has not acknowledged yet; empty if no such response
    /// was sent.
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
            /// The branch has sent the INVITE, or is about to.
            case called
            case ended
        }

        package let stage: Stage
        package let device: DeviceID?
        /// See ``ForkBranch/contact``.
        package let contact: DeviceID?
        /// `wasPushed`: a push was sent to the provider. `wasWoken`: the provider has accepted the push.
        package let wasPushed, wasWoken: Bool
        package let deviceKnows, hasMoved: Bool
        /// The branch's record in the timeline of this run.
        package let record: RecordID?
        /// The code of the push that the branch waits for. A stored branch keeps the code when the push is over.
        package let code: PushCode?
        package let end: ForkBranch.End?
        /// The last INVITE that the branch sent; `nil` in a change after which the stored INVITE stays.
        package var sent: SentINVITE?
        /// The Vias of earlier INVITEs, which the phone may still answer. Only stored branches have them.
        package let former: [ByteString]

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

    /// The values that the daemon needs to send an INVITE again unchanged.
    package struct SentINVITE: Hashable, Sendable {
        /// The value of the topmost Via. The phone knows the transaction by the branch parameter in this Via.
        package let via: ByteString
        package let requestURI: ByteString
        /// The values of the Route header fields.
        package let routes: [ByteString]
        package var flow: Flow

        package init(via: ByteString, requestURI: ByteString, routes: [ByteString], flow: Flow) {
            self.via = via
            self.requestURI = requestURI
            self.routes = routes
            self.flow = flow
        }
    }

    /// Whether it is a call to a user of ours. Its only branch without a device is that of a forward.
    var isUserCall: Bool { userCall != nil }

    /// The devices that the call waits for.
    package var waiting: [DeviceID] { branches.filter { $0.stage == .waiting }.compactMap(\.device) }
    /// The devices that have the INVITE.
    package var ringing: [DeviceID] { branches.filter { $0.stage == .called }.compactMap { $0.contact ?? $0.device } }
}

/// The user to whom a call is offered, and how long, see ``UserCall``.
package struct StoredUserCall: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let callRef: CallRef
    /// Both are empty in the journal, whose reader takes them from the request.
    package let callID, fromTag: ByteString
    /// The end of the hold.
    package let holdUntil: UnixTime
    /// Whether the caller may have phones woken (T11.2).
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

/// A change of a call for the journal. Calls are named by their numbers.
package indirect enum CallChange: Sendable {
    case begun(StoredCall)
    /// A branch is new or has changed. If `sent` is `nil`, the stored INVITE of the branch stays.
    case branch(call: UInt64, number: Int, StoredCall.Branch)
    /// The caller got this final response other than 2xx.
    case final(call: UInt64, [UInt8])
    /// The call leaves the journal: neither caller nor phone needs the call any more.
    case over(call: UInt64)
    /// A row of missed calls. The store writes the row as well, but perhaps only after the call is over.
    case missed(StoredBucketChange)
}

extension StoredCall {
    /// The call for operators; `nil` if the call has no offer or is over.
    package init?(_ call: ProxiedRequest) {
        guard let userCall = call.userCall else { return nil }
        self.init(call, .empty, receivedAt: userCall.receivedAt) { _ in nil }
    }

    /// The call for the journal, with the codes of its pushes; `nil` if the call is over.
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
    /// How many INVITEs before the last one are kept, because a phone may still answer them.
    private static let longestPast = 8

    /// Applies a later entry of the journal to the call. Entries are applied in the order of the journal.
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
    /// The stored branch after this change: the old INVITE and the old push code stay unless the change brings new
    /// ones.
    fileprivate func following(_ old: StoredCall.Branch, keeping limit: Int) -> StoredCall.Branch {
        let past = sent == nil ? old.former : Array(([old.sent?.via].compactMap(\.self) + old.former).prefix(limit))
        return StoredCall.Branch(
            stage: stage, device: device ?? old.device, contact: contact, wasPushed: wasPushed, wasWoken: wasWoken,
            deviceKnows: deviceKnows, hasMoved: hasMoved, record: nil, code: code ?? old.code, end: end,
            sent: sent ?? old.sent, former: past)
    }
}
