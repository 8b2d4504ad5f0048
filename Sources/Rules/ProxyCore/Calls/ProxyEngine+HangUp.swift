import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Ends a dialog with ACK and BYE when a phone has answered and no caller is left (RFC 3261 section 12.2.1.1).
extension ProxyEngine {
    /// A phone has answered a call that an operator ended.
    func hangUp(_ branch: Int, of call: ProxiedRequest, _ answer: SIPResponse, now: Moment) {
        let answering = call.fork.branches[branch]
        guard let userCall = call.userCall, let device = answering.addressee, let flow = answering.flow,
            let listener = identity.listener(for: flow), let incoming = revive(call)
        else { return }
        hangUp(Farewell(userCall, isQuestion: false, to: device, on: flow, from: listener, incoming), answer, now: now)
    }

    /// A phone has answered before the CANCEL reached it. No caller is left, so the daemon sends ACK and BYE itself.
    func hangUp(_ farewell: Farewell, _ answer: SIPResponse, now: Moment) {
        guard let ack = transactions.makeClientTransaction() else { return }
        act(.send(request(.ack, in: farewell, answer, as: ack), on: farewell.flow))
        transactions.discard(ack)
        guard let bye = transactions.makeClientTransaction() else { return }
        let bytes = request(.bye, in: farewell, answer, as: bye)
        let outgoing = OutgoingRequest(
            bytes: bytes, method: .bye, cseqNumber: farewell.invite.request.cseq.number &+ 1, requestURI: 0..<0,
            viaRow: 0..<0, fromRow: 0..<0, toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
        withTransactions { $0.start(bye, request: outgoing, on: farewell.flow, now: now.instant, into: &$1) }
    }

    /// A request as the caller would send it in the dialog that the phone's 2xx made (RFC 3261 section 12.2.1.1).
    func request(
        _ method: Method, in farewell: Farewell, _ answer: SIPResponse, as client: ClientTransactionID
    ) -> [UInt8] {
        let invite = farewell.invite.request
        var out: [UInt8] = []
        method.append(to: &out)
        out.append(" ")
        out.append(Self.remoteTarget(of: answer) ?? invite.uri.text)
        out.append(" SIP/2.0\r\nVia: ")
        out.append(via(for: client, listener: farewell.listener, farewell.invite))
        for route in Self.routesToPhone(answer, identity).reversed() {
            out.append("\r\nRoute: ")
            out.append(route)
        }
        out.append("\r\nFrom: ")
        out.append(invite.frame.firstValue(of: .from) ?? .empty)
        out.append("\r\nTo: ")
        out.append(answer.frame.firstValue(of: .to) ?? .empty)
        out.append("\r\nCall-ID: ")
        out.append(invite.callID)
        out.append("\r\nCSeq: ")
        out.append(decimal: method == .ack ? invite.cseq.number : invite.cseq.number &+ 1)
        out.append(" ")
        method.append(to: &out)
        out.append("\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n")
        return out
    }

    /// The Record-Route values of the edges between us and the phone: all values before our own.
    static func routesToPhone(_ answer: SIPResponse, _ identity: LocalIdentity) -> [ByteString] {
        Array(
            answer.frame.values(of: .recordRoute).prefix { value in
                NameAddress(value).map { !identity.isUs($0.uri) } ?? false
            })
    }

    /// The URI in the answer's Contact.
    static func remoteTarget(of answer: SIPResponse) -> ByteString? {
        guard let contact = answer.frame.firstValue(of: .contact) else { return nil }
        guard let start = contact.firstIndex(of: UInt8(ascii: "<")) else {
            return contact[0..<(contact.firstIndex(of: UInt8(ascii: ";")) ?? contact.count)]
        }
        let rest = contact[start + 1..<contact.count]
        return rest[0..<(rest.firstIndex(of: UInt8(ascii: ">")) ?? rest.count)]
    }
}
