package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import Timekeeping

/// An INVITE as a value: what another run of the program needs to go on with it, and what operators see of it.
package struct StoredCall: Hashable, Sendable {
    /// For ``ProxyEngine/callDismissed(_:with:now:)``, for the next page, and in the journal; later calls have higher ones.
    package let id: UInt64
    /// Set for a call to a user of ours; one that goes to the upstream, or an INVITE inside a dialog, has none.
    package let offer: StoredOffer?
    package let receivedAt: UnixTime
    /// Where the INVITE came from, and whether that was a trusted peer then.
    package let source: Flow
    package let isTrusted: Bool
    /// The user who has shown a password for it.
    package let sender: AddressOfRecord?
    /// The INVITE's bytes; operators see none.
    package let request: ByteString
    /// The final response other than 2xx that its caller got and has not acknowledged yet; empty while there is none.
    package var final: ByteString
    package var branches: [Branch]

    package init(
        id: UInt64, offer: StoredOffer?, receivedAt: UnixTime, source: Flow, isTrusted: Bool, sender: AddressOfRecord?,
        request: ByteString, final: ByteString = .empty, branches: [Branch] = []
    ) {
        self.id = id
        self.offer = offer
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
            /// It has the INVITE, or is about to.
            case called
            case ended
        }

        package let stage: Stage
        package let device: DeviceID?
        /// See ``ForkBranch/contact``.
        package let contact: DeviceID?
        /// A push has left; the provider has taken it.
        package let wasPushed, wasWoken: Bool
        package let deviceKnows, hasMoved: Bool
        /// Its record in the timeline of this run.
        package let record: RecordID?
        /// The code of the push that it waits for; in a row it stays when the push is over.
        package let code: PushCode?
        package let end: ForkBranch.End?
        /// The INVITE that it has sent last; `nil` in a change that does not concern it.
        package var sent: SentINVITE?
        /// The Vias of those before, by which the phone may answer still; only in a row.
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

    /// What a request needs to be made once more as it was sent.
    package struct SentINVITE: Hashable, Sendable {
        /// The topmost Via's value, with the branch by which the phone knows it.
        package let via: ByteString
        package let requestURI: ByteString
        /// The values of Route.
        package let routes: [ByteString]
        package var flow: Flow

        package init(via: ByteString, requestURI: ByteString, routes: [ByteString], flow: Flow) {
            self.via = via
            self.requestURI = requestURI
            self.routes = routes
            self.flow = flow
        }
    }

    /// Devices that are waited for.
    package var waiting: [DeviceID] { branches.filter { $0.stage == .waiting }.compactMap(\.device) }
    /// Devices that have the INVITE.
    package var ringing: [DeviceID] { branches.filter { $0.stage == .called }.compactMap { $0.contact ?? $0.device } }
}

/// To whom a call is offered, see ``Offer``.
package struct StoredOffer: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let callRef: CallRef
    /// Empty in the journal, whose reader finds them in the request.
    package let callID, fromTag: ByteString
    /// The end of the hold.
    package let holdUntil: UnixTime
    /// Whether its caller may have phones woken.
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

/// What is to be written of a call, by the call's number.
package indirect enum CallChange: Sendable {
    case begun(StoredCall)
    /// A branch is new, or has changed; what it has sent stays as it is unless it comes with it.
    case branch(call: UInt64, number: Int, StoredCall.Branch)
    /// The caller got this final response other than 2xx.
    case final(call: UInt64, [UInt8])
    /// Nobody waits for anything of it any more.
    case over(call: UInt64)
    /// A row of missed calls, which is recorded as well: a call may be over before that is written.
    case missed(StoredBucketChange)
}

extension StoredCall {
    /// For operators: `nil` for what is no call to a user of ours, or is over.
    init?(_ call: Call) {
        guard let offer = call.offer else { return nil }
        self.init(call, .empty, receivedAt: offer.receivedAt) { _ in nil }
    }

    /// For the journal, with the codes of its pushes: `nil` for a call that is over.
    init?(_ call: Call, _ request: ByteString, receivedAt: UnixTime, code: (PushID) -> PushCode?) {
        guard call.fork.phase == .proceeding else { return nil }
        self.init(
            id: call.id.rawValue, offer: call.offer.map(StoredOffer.init), receivedAt: receivedAt, source: call.source,
            isTrusted: call.isTrusted, sender: call.sender, request: request,
            branches: call.fork.branches.map { Branch($0, code: $0.push.flatMap(code)) })
    }
}

extension StoredOffer {
    fileprivate init(_ offer: Offer) {
        self.init(
            aor: offer.aor, callRef: offer.ref, callID: offer.key.callID, fromTag: offer.key.fromTag,
            holdUntil: offer.pushDeadline, mayPush: offer.mayPush)
    }
}

extension StoredCall.Branch {
    init(_ branch: ForkBranch, code: PushCode?, sent: StoredCall.SentINVITE? = nil) {
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
    /// How many INVITEs before the last one a phone may answer.
    private static let longestPast = 8

    /// Brings in what was written of the call after its beginning, in that order.
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
    /// What was sent stays unless something was sent since, and so does the push's code.
    fileprivate func following(_ old: StoredCall.Branch, keeping limit: Int) -> StoredCall.Branch {
        let past = sent == nil ? old.former : Array(([old.sent?.via].compactMap(\.self) + old.former).prefix(limit))
        return StoredCall.Branch(
            stage: stage, device: device ?? old.device, contact: contact, wasPushed: wasPushed, wasWoken: wasWoken,
            deviceKnows: deviceKnows, hasMoved: hasMoved, record: nil, code: code ?? old.code, end: end,
            sent: sent ?? old.sent, former: past)
    }
}
