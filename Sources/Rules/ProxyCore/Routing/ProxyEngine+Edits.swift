import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import PushDelivery
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Changes the header fields of forwarded requests: Via, Record-Route and fields to remove (RFC 3261 section 16.6 items
/// 5 to 8).
extension ProxyEngine {
    /// Removes fields that must not leave this daemon: identity fields of an untrusted sender (T9.7), credentials for
    /// our own realms (T9.8), and a display name that has changed since the dialog began (T20.7).
    ///
    /// - Parameters:
    ///   - edits: the edits to change.
    ///   - incoming: the request.
    ///   - place: where the request is sent; `nil` if that is unknown.
    func strip(_ edits: inout RequestEdits, of incoming: IncomingRequest, to place: Endpoint?) {
        edits.strip(
            incoming, settings.stripped, realms: realmsToStrip(from: incoming, to: place),
            takesTokens: !settings.bearer.issuers.isEmpty)
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
            sip.transactions.branchKey.appendBranch(for: client, loopHash: hash, to: &via)
            via.append(";rport")
            if offersReuse { via.append(";alias") }
        }
    }

}

/// Chooses the hops for requests to devices, by the flow on which a device registered and not by its Contact (T9.1 to
/// T9.4).
extension ProxyEngine {
    func hop(to target: ForkTarget) -> DeviceHop {
        let isOfTrusted = isTrusted(target.flow)
        if isOfTrusted, let uri = target.pathURI {
            guard let hop = NextHop(uri) else { return .unreachable }
            if let (transport, endpoint) = hop.numeric, identity.isOurs(transport, endpoint) { return .unreachable }
            return .path(hop)
        }
        guard !target.isSecure || target.flow.transport.isSecure else { return .unreachable }
        guard target.isReachable, !identity.isOurs(target.flow.transport, target.flow.remote) else {
            return target.canBeWoken ? .asleep : .unreachable
        }
        guard target.flow.transport.isReliable else { return .flow(target.flow, otherwise: nil) }
        let otherwise = target.canBeWoken ? nil : returnHop(to: target, isOfTrusted: isOfTrusted)
        if target.flow.isConnection { return .flow(target.flow, otherwise: otherwise) }
        if let otherwise { return .connection(otherwise) }
        return target.canBeWoken ? .asleep : .unreachable
    }

    /// The hop to a phone without push token whose TCP connection is closed: the phone's source address with the port
    /// of its Contact. The hop to a phone does not use TLS, because a phone has no certificate.
    ///
    /// - Returns: `nil` if the endpoint of the hop is our own, or belongs to a trusted peer behind the same address.
    private func returnHop(to target: ForkTarget, isOfTrusted: Bool) -> ResolvedHop? {
        let endpoint = Endpoint(target.flow.remote.address, target.port)
        guard target.port != 0, target.flow.transport == .tcp, !identity.isOurs(target.flow.transport, endpoint),
            isOfTrusted || !isTrusted(endpoint)
        else { return nil }
        return ResolvedHop(transport: target.flow.transport, endpoint: endpoint)
    }
}

/// Finds the device of a user that a request names by a GRUU (RFC 5627) or a `pn-purr` (RFC 8599).
extension ProxyEngine {
    /// The addressee of a Request-URI whose host is one of our domains: a user, or one device of a user.
    enum Addressee {
        case user(AddressOfRecord)
        /// One device of a user; the id is `nil` while the device has no contact.
        case device(DeviceID?, of: AddressOfRecord)
        case nobody
    }

    func addressee(_ uri: SIPURI, home: ByteString) -> Addressee {
        if let named = deviceNamed(byPURR: uri) { return .device(named.device, of: named.aor) }
        switch GRUU(uri) {
        case nil: return AddressOfRecord(uri, home: home).map { .user($0) } ?? .nobody
        case .publicly(let instance):
            guard let aor = AddressOfRecord(uri, home: home) else { return .nobody }
            return .device(registrar.bindings.device(of: aor, instance: instance), of: aor)
        case .temporary(let sealed):
            guard let (device, callID) = functions.seal.openTemporaryGRUU(sealed),
                let aor = registrar.bindings.binding(device)?.aor, belongTogether(aor.host, home),
                isRegistered(device, callID)
            else { return .nobody }
            return .device(registrar.bindings.device(of: device), of: aor)
        }
    }

    /// The device that the Request-URI names by a `pn-purr`; the daemon gave the `pn-purr` to the device when the
    /// device registered (RFC 8599 section 6).
    func deviceNamed(byPURR uri: SIPURI) -> (device: DeviceID, aor: AddressOfRecord)? {
        guard let purr = uri.parameters.value(of: "pn-purr"), let device = functions.seal.openPURR(purr),
            let aor = registrar.bindings.binding(device)?.aor
        else { return nil }
        return (registrar.bindings.device(of: device), aor)
    }

    /// Whether the device still registers with the Call-ID of a temporary GRUU. A client that registers with another
    /// Call-ID loses its temporary GRUUs (RFC 5627 section 3.2).
    private func isRegistered(_ device: DeviceID, _ callID: UInt32) -> Bool {
        registrar.bindings.callIDNumber(of: device).map { $0 & DialogSeal.callIDMask } == callID
    }

    /// Replaces a phone's GRUU in the Request-URI by the phone's contact, because a phone may use its GRUU as Contact
    /// in a dialog.
    func withoutGRUU(_ next: RouteSet.Next, _ pass: DialogPass, now: Moment) -> RouteSet.Next {
        guard case .phone(let device) = pass.receiver.party, GRUU(next.requestURI) != nil,
            let home = identity.home(of: next.requestURI),
            case .device(let named?, _) = addressee(next.requestURI, home: home),
            named == registrar.bindings.device(of: device),
            let target = registrar.bindings.forkTarget(device, now: now.instant),
            let uri = SIPURI(target.requestURI)
        else { return next }
        var next = next
        next.requestURI = uri
        return next
    }
}
extension ByteString {
    /// Whether the URI has the scheme `sips`, which demands TLS on every hop.
    var isSIPS: Bool { count > 4 && self[4] == UInt8(ascii: ":") && self[3] | 0x20 == UInt8(ascii: "s") }
}
