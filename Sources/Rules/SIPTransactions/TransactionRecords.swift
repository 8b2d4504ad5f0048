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
    /// The destination of responses.
    var flow: Flow
    var machine: Machine
    /// The response to a retransmission, or empty.
    var response: [UInt8] = []
    /// Timer G, or the time of a held 100.
    var resend = DeadlineID.none
    /// Timer H, I or L, or the client's timer F.
    var wait = DeadlineID.none

    mutating func vacate() { response = [] }
}

/// A client transaction in the table.
struct ClientRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        /// Its id is assigned, but its request is not known yet.
        case reserved
        case invite(InviteClientTransaction)
        case nonInvite(NonInviteClientTransaction)
    }

    var id: UInt64 = 0
    /// The destination of the request, after it was sent.
    var places: ClientPlaces?
    var machine = Machine.reserved
    /// The method of the request, which a response must name.
    var method = Method.invite
    /// The request while it is retransmitted, then the ACK that answers retransmitted final responses.
    var bytes: [UInt8] = []
    /// The data for the ACK and the CANCEL of an INVITE, until its final response.
    var invite: SentInvite?
    /// The INVITE that this transaction cancels, if it is our own CANCEL. The core gets no notifications about such a
    /// transaction.
    @Packed var cancelledInvite: ClientTransactionID?
    /// Timer A or E.
    var resend = DeadlineID.none
    /// Timer B, C, D, F, K or M, or the time limit after a CANCEL.
    var wait = DeadlineID.none
    /// Neighbours among the transactions of the same flow, see ``FlowChains``.
    var nextOnFlow: Int32 = -1
    var previousOnFlow: Int32 = -1

    init(cancelling invite: ClientTransactionID? = nil) { cancelledInvite = invite }

    /// The destination of further messages.
    var flow: Flow? { places?.present }

    mutating func vacate() {
        places = nil
        bytes = []
        invite = nil
        method = .invite
    }
}

/// The sent INVITE, and the reasons for its CANCEL. A class, so that other transactions need no space for it.
final class SentInvite: Sendable {
    let request: OutgoingRequest
    /// Reason values of a CANCEL that waits for the first provisional response.
    let reasons: [ByteString]

    init(_ request: OutgoingRequest, reasons: [ByteString] = []) {
        self.request = request
        self.reasons = reasons
    }
}

/// The action at a deadline, and its transaction. Deadlines are cancelled with their record, so a slot is enough.
struct TransactionDeadline: Sendable {
    enum Job: UInt8, Sendable { case serverResend, serverWait, clientResend, clientWait }

    let slot: UInt32
    let job: Job

    init(_ job: Job, slot: Int) {
        self.slot = UInt32(truncatingIfNeeded: slot)
        self.job = job
    }
}
