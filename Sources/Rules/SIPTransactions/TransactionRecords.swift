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
    /// Where responses go.
    var flow: Flow
    var machine: Machine
    /// The response to a retransmission; empty when there is none.
    var response: [UInt8] = []
    /// Timer G, or the time of a 100 that is held.
    var resend = DeadlineID.none
    /// Timer H, I or L, or the client's timer F.
    var wait = DeadlineID.none

    mutating func vacate() { response = [] }
}

/// A client transaction in the table.
struct ClientRecord: SlabRecord, Sendable {
    enum Machine: Sendable {
        /// Its id was given out, but its request is not there yet.
        case reserved
        case invite(InviteClientTransaction)
        case nonInvite(NonInviteClientTransaction)
    }

    var id: UInt64 = 0
    /// Where the request went, once it did.
    var places: ClientPlaces?
    var machine = Machine.reserved
    /// The method of the request, which a response must name.
    var method = Method.invite
    /// The request while it is repeated, then the ACK that answers retransmitted final responses.
    var bytes: [UInt8] = []
    /// What the ACK and the CANCEL of an INVITE are made of, until its final response.
    var invite: SentInvite?
    /// The INVITE that this transaction cancels, if it is our own CANCEL. The core is told nothing about such a
    /// transaction.
    @Packed var cancelledInvite: ClientTransactionID?
    /// Timer A or E.
    var resend = DeadlineID.none
    /// Timer B, C, D, F, K or M, or the patience after a CANCEL.
    var wait = DeadlineID.none
    /// Neighbours among the transactions of the same flow, see ``FlowChains``.
    var nextOnFlow: Int32 = -1
    var previousOnFlow: Int32 = -1

    init(cancelling invite: ClientTransactionID? = nil) { cancelledInvite = invite }

    /// Where what is still sent goes.
    var flow: Flow? { places?.present }

    mutating func vacate() {
        places = nil
        bytes = []
        invite = nil
        method = .invite
    }
}

/// The INVITE as sent, and what to say when it is cancelled. It is a class, so that other transactions need no place
/// for it.
final class SentInvite: Sendable {
    let request: OutgoingRequest
    /// Reason values of a CANCEL that waits for the first provisional response.
    let reasons: [ByteString]

    init(_ request: OutgoingRequest, reasons: [ByteString] = []) {
        self.request = request
        self.reasons = reasons
    }
}

/// What is to happen at a deadline, and to whom. Deadlines are cancelled with their record, so a slot is enough.
struct TransactionDeadline: Sendable {
    enum Job: UInt8, Sendable { case serverResend, serverWait, clientResend, clientWait }

    let slot: UInt32
    let job: Job

    init(_ job: Job, slot: Int) {
        self.slot = UInt32(truncatingIfNeeded: slot)
        self.job = job
    }
}
