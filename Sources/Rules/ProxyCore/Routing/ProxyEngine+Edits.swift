import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Changes to forwarded requests: Via, Record-Route and removed fields (RFC 3261 section 16.6 items 5 to 8).
extension ProxyEngine {
    /// Removes fields that must not leave this daemon: identity fields of an untrusted sender (T9.7), credentials for
    /// our own realms (T9.8), and a display name that the dialog did not begin with (T20.7).
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

    /// One Record-Route value, or two if the sides use different listeners. Each side then reaches us by its own
    /// transport.
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
                // RFC 7118 uses `ws` for WebSocket over TLS, too.
                value.append(text: (listener.transport == .wss ? .ws : listener.transport).parameterName)
            }
            value.append(";lr>")
        }
    }
}

extension ByteString {
    /// Whether the URI has the scheme `sips`, which asks for protected hops.
    var isSIPS: Bool { count > 4 && self[4] == UInt8(ascii: ":") && self[3] | 0x20 == UInt8(ascii: "s") }
}
