import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// What is written into a request that goes on: Via, Record-Route, and what is taken out (RFC 3261 section 16.6 items 5 to 8).
extension ProxyEngine {
    /// Removes what must not go on, wherever the request goes: what a sender who is not trusted says of his identity (T9.7),
    /// anybody's credentials that are for us (T9.8), and a name that the dialog did not begin with (T20.7).
    func strip(_ edits: inout RequestEdits, of incoming: IncomingRequest) {
        if !incoming.isTrusted { edits.filter = settings.stripped }
        edits.ownRealms = identity.realms
        edits.fromStart = fromStart(of: incoming.request)
    }

    func via(
        for client: ClientTransactionID, listener: Listener, _ incoming: IncomingRequest, offersReuse: Bool = false
    ) -> ByteString {
        let hash = RequestValidation.loopHash(incoming.request, fromTrusted: incoming.isTrusted)
        return via(for: client, listener: listener, loopHash: hash, offersReuse: offersReuse)
    }

    func via(
        for client: ClientTransactionID, listener: Listener, loopHash hash: UInt64, offersReuse: Bool = false
    ) -> ByteString {
        ByteString(capacity: listener.sentBy.count + 88) { via in
            via.append("SIP/2.0/")
            via.append(text: listener.transport.viaName)
            via.append(" ")
            via.append(listener.sentBy)
            via.append(";branch=")
            transactions.branchKey.appendBranch(for: client, loopHash: hash, to: &via)
            via.append(";rport")
            if offersReuse { via.append(";alias") }
        }
    }

    func makesDialog(_ request: SIPRequest) -> Bool {
        guard request.to.tag == nil else { return false }
        switch request.method {
        case .invite, .subscribe, .refer, .notify: return true
        case .ack, .bye, .cancel, .register, .options, .prack, .update, .info, .message, .publish, .other: return false
        }
    }

    /// One Record-Route, or two when the sides differ in transport or listener, so that each side can reach us its way.
    func recordRoutes(
        _ incoming: IncomingRequest, _ edits: RequestEdits, to flow: Flow, device: DeviceID?, now: Moment
    ) -> [ByteString] {
        guard let inbound = identity.listener(incoming.flow.listener), let outbound = identity.listener(flow.listener)
        else { return [] }
        let user = dialogToken(incoming, to: flow, device: device, now: now)
        let isSIPS = edits.requestURI.isSIPS
        let callee = Self.recordRoute(user, outbound, isSIPS: isSIPS)
        guard inbound.number != outbound.number else { return [callee] }
        return [callee, Self.recordRoute(user, inbound, isSIPS: isSIPS && inbound.transport.isSecure)]
    }

    static func recordRoute(_ user: [UInt8], _ listener: Listener, isSIPS: Bool) -> ByteString {
        ByteString(capacity: user.count + listener.sentBy.count + 32) { value in
            value.append(isSIPS ? "<sips:" : "<sip:")
            value.append(user.span)
            value.append("@")
            value.append(listener.sentBy)
            if listener.transport != .udp {
                value.append(";transport=")
                // RFC 7118 has no other word for WebSocket over TLS.
                value.append(text: (listener.transport == .wss ? .ws : listener.transport).parameterName)
            }
            value.append(";lr>")
        }
    }
}

extension ByteString {
    /// Whether a URI asks for protected hops.
    var isSIPS: Bool { count > 4 && self[4] == UInt8(ascii: ":") && self[3] | 0x20 == UInt8(ascii: "s") }
}
