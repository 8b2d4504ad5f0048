import Addressing
import Bytes
import Collections
import SIPGrammar
import Testing
import Timekeeping

@testable import SIPTransactions

/// A transaction table with a clock that the test moves, and with outputs as readable text.
final class TableFixture {
    var table: TransactionTable
    var now = start
    /// The client transaction that was started last. The property `server` has the request that was received last.
    var client: (id: ClientTransactionID, branch: String)?
    var method = ""
    var server: ServerTransactionID?
    private var out: [TransactionOutput] = []

    init(limits: TransactionLimits = TransactionLimits()) {
        table = TransactionTable(branchKey: BranchKey(1, 2), limits: limits)
    }

    /// The table's classification of a request, on the assumption that the core serves each request.
    enum Match: Equatable {
        case new(ServerTransactionID)
        case cancel(ServerTransactionID, of: ServerTransactionID?)
        case acknowledged(ServerTransactionID)
        case absorbed, endToEndACK, overloaded
    }

    func receive(_ message: TestMessage, on flow: Flow = udp) -> Match {
        let request = message.request
        switch table.requestReceived(request, now: now, into: &out) {
        case .new(let key, _):
            return table.begin(key, for: request, respondOn: flow, now: now).map { .new($0) } ?? .overloaded
        case .cancel(let key, let invite):
            return table.begin(key, for: request, cancelling: invite, respondOn: flow, now: now)
                .map { .cancel($0, of: invite) } ?? .overloaded
        case .unanswered(let id):
            respond(id, .trying)
            return .absorbed
        case .absorbed: return .absorbed
        case .acknowledged(let id): return .acknowledged(id)
        case .endToEndACK: return .endToEndACK
        }
    }

    /// Receives a request that must be new.
    func new(_ message: TestMessage, on flow: Flow = udp) throws -> ServerTransactionID {
        guard case .new(let id) = receive(message, on: flow) else { throw Unexpected() }
        return id
    }

    func respond(_ id: ServerTransactionID, _ status: Status) {
        table.respond(id, status: status, bytes: "SIP/2.0 \(status) x\r\n\r\n".bytes, now: now, into: &out)
    }

    /// Tells the table the status of a response before the bytes of the response exist.
    func willRespond(_ id: ServerTransactionID, _ status: Status) {
        table.respond(id, status: status, bytes: [], now: now, into: &out)
    }

    func reserve() throws -> ClientTransactionID {
        guard let id = table.makeClientTransaction() else { throw Unexpected() }
        return id
    }

    /// Starts a new client transaction. The Via of the request has the branch of the transaction.
    func send(
        _ method: String, on flow: Flow = udp, loopHash: UInt64 = 5
    ) throws -> (id: ClientTransactionID, branch: String) {
        let id = try reserve()
        let branch = table.branchKey.branch(for: id, loopHash: loopHash).string
        var message = TestMessage(method, branch: branch)
        message.body = "body"
        table.start(id, request: message.outgoing, on: flow, now: now, into: &out)
        self.method = method
        return (id, branch)
    }

    func receive(_ status: Int, _ branch: String, _ method: String, toTag: String = "t1") {
        let message = TestMessage(status: status, branch: branch, method: method, toTag: toTag)
        table.responseReceived(message.response, now: now, into: &out)
    }

    func cancel(_ id: ClientTransactionID, reasons: [String] = []) {
        table.cancel(id, reasons: reasons.map { ByteString($0) }, now: now, into: &out)
    }

    func transportFailed(on flow: Flow) {
        for id in table.clients(on: flow) { transportFailed(id) }
    }

    func transportFailed(_ id: ClientTransactionID) { table.transportFailed(id, now: now, into: &out) }

    /// Advances the clock from deadline to deadline, up to `offset` after ``start``.
    func advance(to offset: Duration) {
        while let next = table.nextDeadline, next <= start + offset {
            now = max(now, next)
            table.deadlineReached(now: now, into: &out)
        }
        now = start + offset
        table.deadlineReached(now: now, into: &out)
    }

    /// The transaction table's outputs since the last call of this function, as short texts.
    func outputs() -> [String] {
        defer { out = [] }
        return out.map { output in
            switch output {
            case .send(let bytes, _):
                let words = String(decoding: bytes, as: UTF8.self).split(separator: " ", maxSplits: 2)
                return words[0] == "SIP/2.0" ? "send \(words[1])" : "send \(words[0])"
            case .responseReceived(_, let response): return "told \(response.status.code)"
            case .clientTimedOut: return "client timed out"
            case .clientRangTooLong: return "client rang too long"
            case .clientTransportFailed: return "client failed"
            case .clientEnded: return "client ended"
            case .provisionalDue: return "100 due"
            case .serverTimedOut: return "server timed out"
            case .serverEnded: return "server ended"
            case .strayResponse: return "stray"
            }
        }
    }

    /// The text and the flow of the last message that was sent since the last call of ``outputs()``.
    var lastSent: (text: String, flow: Flow)? {
        for case .send(let bytes, let flow) in out.reversed() { return (String(decoding: bytes, as: UTF8.self), flow) }
        return nil
    }

    var isEmpty: Bool {
        table.isEmpty
    }
}

struct Unexpected: Error {}

extension BranchKey {
    func branch(for id: ClientTransactionID, loopHash: UInt64) -> ByteString {
        ByteString(capacity: 41) { appendBranch(for: id, loopHash: loopHash, to: &$0) }
    }
}

extension TransactionTable {
    var isEmpty: Bool {
        serverCount == 0 && clientCount == 0 && completed.isEmpty && deadlines.count == 0 && cancellations.isEmpty
    }
}
