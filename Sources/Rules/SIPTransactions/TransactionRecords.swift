import Addressing
import Bytes
import Collections
import SIPGrammar
import Timekeeping

/// A server transaction, as the transaction table stores it.
struct ServerRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        case invite(InviteServerTransaction)
        case nonInvite(NonInviteServerTransaction)
    }

    var id: UInt64 = 0
    let key: TransactionKey
    /// The flow on which responses to the request are sent.
    var flow: Flow
    var machine: Machine
    /// The response that is sent again for retransmissions of the request; empty if no response is stored.
    var response: [UInt8] = []
    /// The deadline of timer G. For a request other than INVITE, the time at which its delayed 100 is sent.
    var resend = DeadlineID.none
    /// The deadline of the timer that ends the transaction: H, I or L for an INVITE, and F for another request.
    var wait = DeadlineID.none

    mutating func vacate() { response = [] }
}

/// A client transaction, as the transaction table stores it.
struct ClientRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        /// The id of the transaction is reserved, but no request was sent yet.
        case reserved
        case invite(InviteClientTransaction)
        case nonInvite(NonInviteClientTransaction)
    }

    var id: UInt64 = 0
    /// The flows on which a response is accepted; `nil` before the request was sent.
    var places: ClientPlaces?
    var machine = Machine.reserved
    /// The method of the request; the CSeq of each response must contain the same method.
    var method = Method.invite
    /// The bytes to send again: the request or, after a 3xx to 6xx to an INVITE, its ACK.
    var bytes: [UInt8] = []
    /// The INVITE from which ACK and CANCEL are made; `nil` after the final response.
    var invite: SentInvite?
    /// The cancelled INVITE, if the transaction is the daemon's own CANCEL, which causes no outputs.
    @PackedOptional var cancelledInvite: ClientTransactionID?
    /// The deadline of timer A or E, at which the request is sent again.
    var resend = DeadlineID.none
    /// The deadline of timer B, C, D, F, K or M, or the time limit after a CANCEL.
    var wait = DeadlineID.none
    /// The slots of the next and the previous transaction in a flow's list (see ``ClientsByFlow``); -1 for none.
    var nextOnFlow: Int32 = -1
    var previousOnFlow: Int32 = -1

    init(cancelling invite: ClientTransactionID? = nil) { cancelledInvite = invite }

    /// The flow on which further messages of the transaction are sent.
    var flow: Flow? { places?.present }

    mutating func vacate() {
        places = nil
        bytes = []
        invite = nil
        method = .invite
    }
}

/// The INVITE that was sent, and the reasons for the INVITE's CANCEL. ``SentInvite`` is a class, so that other
/// transactions need no memory for an INVITE.
final class SentInvite: Sendable {
    let request: OutgoingRequest
    /// The Reason values of a CANCEL that is sent after the first provisional response.
    let reasons: [ByteString]

    init(_ request: OutgoingRequest, reasons: [ByteString] = []) {
        self.request = request
        self.reasons = reasons
    }
}

/// A deadline: the slot of a transaction, and the job to do when the deadline is reached. An ended transaction's
/// deadlines are cancelled, so the slot cannot belong to a later transaction.
struct TransactionDeadline: Sendable {
    enum Job: UInt8, Sendable { case serverResend, serverWait, clientResend, clientWait }

    let slot: UInt32
    let job: Job

    init(_ job: Job, slot: Int) {
        self.slot = UInt32(truncatingIfNeeded: slot)
        self.job = job
    }
}
