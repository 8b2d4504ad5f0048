import Addressing
import Bytes
import Collections
import SIPGrammar
import Timekeeping

/// A server transaction in the table.
struct ServerRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        case invite(InviteServerTransaction)
        case nonInvite(NonInviteServerTransaction)
    }

    var id: UInt64 = 0
    let key: TransactionKey
    /// The flow on which responses are sent.
    var flow: Flow
    var machine: Machine
    /// The response that a retransmitted request gets; empty if there is none.
    var response: [UInt8] = []
    /// The deadline of timer G, or of a held 100.
    var resend = DeadlineID.none
    /// The deadline of timer H, I or L, or of the client's timer F.
    var wait = DeadlineID.none

    mutating func vacate() { response = [] }
}

/// A client transaction in the table.
struct ClientRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        /// The id is reserved, but the request is not known yet.
        case reserved
        case invite(InviteClientTransaction)
        case nonInvite(NonInviteClientTransaction)
    }

    var id: UInt64 = 0
    /// The places from which a response may come; `nil` before the request was sent.
    var places: ClientPlaces?
    var machine = Machine.reserved
    /// The method of the request. A response must have the same method in CSeq.
    var method = Method.invite
    /// The request while it is resent, and later the ACK that answers retransmitted final responses.
    var bytes: [UInt8] = []
    /// The data for the ACK and the CANCEL of an INVITE, until its final response.
    var invite: SentInvite?
    /// The INVITE that this transaction cancels, if it is our own CANCEL. The core gets no outputs about a CANCEL.
    @PackedOptional var cancelledInvite: ClientTransactionID?
    /// The deadline of timer A or E.
    var resend = DeadlineID.none
    /// The deadline of timer B, C, D, F, K or M, or the time limit after a CANCEL.
    var wait = DeadlineID.none
    /// The slots of the next and the previous transaction on the same flow (see ``ClientsByFlow``); -1 for none.
    var nextOnFlow: Int32 = -1
    var previousOnFlow: Int32 = -1

    init(cancelling invite: ClientTransactionID? = nil) { cancelledInvite = invite }

    /// The flow for further messages of the transaction.
    var flow: Flow? { places?.present }

    mutating func vacate() {
        places = nil
        bytes = []
        invite = nil
        method = .invite
    }
}

/// The sent INVITE, and the reasons for its CANCEL. The type is a class, so that other transactions need no memory for
/// it.
final class SentInvite: Sendable {
    let request: OutgoingRequest
    /// The Reason values of a CANCEL that waits for the first provisional response.
    let reasons: [ByteString]

    init(_ request: OutgoingRequest, reasons: [ByteString] = []) {
        self.request = request
        self.reasons = reasons
    }
}

/// A deadline's action and the slot of its transaction. The end of a transaction cancels its deadlines, so the slot
/// cannot belong to another transaction.
struct TransactionDeadline: Sendable {
    enum Job: UInt8, Sendable { case serverResend, serverWait, clientResend, clientWait }

    let slot: UInt32
    let job: Job

    init(_ job: Job, slot: Int) {
        self.slot = UInt32(truncatingIfNeeded: slot)
        self.job = job
    }
}
