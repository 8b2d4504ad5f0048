import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
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
            sip.transactions.branchKey.appendBranch(for: client, loopHash: hash, to: &via)
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

/// The way to a registered device.
enum DeviceHop {
    /// The flow that the device registered on. The other hop is tried if the flow is gone.
    case flow(Flow, otherwise: ResolvedHop?)
    /// A new connection to the device.
    case connection(ResolvedHop)
    /// The Path of the registration (RFC 3327).
    case path(NextHop)
    /// The device's connection is closed, and only a push can wake the device.
    case asleep
    case unreachable

    var isReachable: Bool { if case .unreachable = self { false } else { true } }
}

/// The hops that requests to devices may use (rules T9.1 to T9.4). A Contact only names a device, and does not decide
/// where we send.
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

    /// The hop to a phone without pushes whose TCP connection is closed: the phone's source address with the port of
    /// its Contact. TLS is not used, because a phone has no certificate. `nil` if that endpoint is our own, or belongs
    /// to a trusted peer behind the same address.
    private func returnHop(to target: ForkTarget, isOfTrusted: Bool) -> ResolvedHop? {
        let endpoint = Endpoint(target.flow.remote.address, target.port)
        guard target.port != 0, target.flow.transport == .tcp, !identity.isOurs(target.flow.transport, endpoint),
            isOfTrusted || !isTrusted(endpoint)
        else { return nil }
        return ResolvedHop(transport: target.flow.transport, endpoint: endpoint)
    }

    /// Removes the addresses that lead back to this daemon. The first removal is logged as an error, since the settings
    /// or the DNS names are wrong.
    func withoutOurs(_ hops: [ResolvedHop]) -> [ResolvedHop] {
        guard hops.contains(where: { identity.isOurs($0.transport, $0.endpoint) }) else { return hops }
        if !network.upstream.hasToldOfOwnHop {
            network.upstream.hasToldOfOwnHop = true
            log.error(
                "a next hop is this daemon itself: look at upstream, and at the edges' Path and Route",
                [.target: .text(hops.map { "\($0.transport.parameterName):\($0.endpoint)" }.joined(separator: " "))])
        }
        return hops.filter { !identity.isOurs($0.transport, $0.endpoint) }
    }
}

// MARK: Max-Breadth

/// The limit of parallel branches of a request (RFC 5393 section 5).
enum Breadth {
    /// The breadth of a request without Max-Breadth, and the maximum for any request.
    static let most: UInt32 = 60

    static func allowed(to request: SIPRequest, targets: Int) -> UInt32 {
        guard let value = request.frame.firstValue(of: .maxBreadth) else {
            // All contacts of a user are called, even if they exceed the limit.
            return max(most, UInt32(clamping: targets))
        }
        return min(value.decimal(as: UInt32.self) ?? most, most)
    }

    /// The breadth that each target gets. 0 if the request has too many targets.
    static func share(of request: SIPRequest, among targets: Int) -> UInt32 {
        let allowed = allowed(to: request, targets: targets)
        return targets > 0 ? allowed / UInt32(clamping: targets) : allowed
    }
}

/// Requests that name one device of a user by a GRUU (RFC 5627) or a `pn-purr` (RFC 8599).
extension ProxyEngine {
    /// The user or device that a Request-URI in one of our domains names.
    enum Addressee {
        case user(AddressOfRecord)
        /// One device of a user. `nil` if that device has no contact now.
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
                let aor = registrar.bindings.binding(device)?.aor, isRegistered(device, callID)
            else { return .nobody }
            return .device(registrar.bindings.device(of: device), of: aor)
        }
    }

    /// The device that a `pn-purr` in the Request-URI names (RFC 8599 section 6). We gave the device that value when it
    /// registered.
    func deviceNamed(byPURR uri: SIPURI) -> (device: DeviceID, aor: AddressOfRecord)? {
        guard let purr = uri.parameters.value(of: "pn-purr"), let device = functions.seal.openPURR(purr),
            let aor = registrar.bindings.binding(device)?.aor
        else { return nil }
        return (registrar.bindings.device(of: device), aor)
    }

    /// Whether the device still registers with this Call-ID. A client that registers with another Call-ID loses its
    /// temporary GRUUs (RFC 5627 section 3.2).
    private func isRegistered(_ device: DeviceID, _ callID: UInt32) -> Bool {
        registrar.bindings.callIDNumber(of: device).map { $0 & DialogSeal.callIDMask } == callID
    }

    /// Replaces a phone's GRUU in the Request-URI by the phone's contact. Requests inside a dialog carry the GRUU if
    /// the phone used it as its Contact.
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

extension DialogSeal {
    /// The last bytes of a sealed block of sixteen bytes. They say what the block is for.
    private enum Purpose {
        /// The last two bytes. The three bytes before them count the REGISTER answers, and the three before those are a
        /// part of the Call-ID's number.
        static let gruu: UInt16 = 0x6772
        /// The last four bytes. The four bytes before them count the REGISTER answers.
        static let purr: UInt32 = 0x7075_7272
        /// The last four bytes of a GRUU from versions that did not count answers. The four bytes before them stand for
        /// the Call-ID.
        static let formerGRUU: UInt32 = 0x6772_7575
    }

    /// The bits of a Call-ID's number that a temporary GRUU contains.
    static let callIDMask: UInt32 = 0xff_ffff

    func seal(_ name: SealedName) -> [23 of UInt8] {
        switch name {
        case .temporaryGRUU(let device, let callID, let answer):
            let numbers = UInt64(callID & Self.callIDMask) << 40 | UInt64(answer & 0xff_ffff) << 16
            return sealBlock(device.rawValue, numbers | UInt64(Purpose.gruu))
        case .purr(let device, let answer):
            return sealBlock(device.rawValue, UInt64(answer) << 32 | UInt64(Purpose.purr))
        }
    }

    /// The device of a temporary GRUU, and the part of its Call-ID's number that the GRUU contains. A forged GRUU names
    /// no device: the device number, the Call-ID and the purpose would have to match.
    func openTemporaryGRUU(_ text: ByteString) -> (device: DeviceID, callID: UInt32)? {
        guard let (high, low) = openBlock(text) else { return nil }
        if UInt16(truncatingIfNeeded: low) == Purpose.gruu {
            return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 40))
        }
        guard UInt32(truncatingIfNeeded: low) == Purpose.formerGRUU else { return nil }
        return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 32) & Self.callIDMask)
    }

    /// The device that a `pn-purr` names, whichever REGISTER answer contained the value.
    func openPURR(_ text: ByteString) -> DeviceID? {
        guard let (high, low) = openBlock(text), UInt32(truncatingIfNeeded: low) == Purpose.purr else { return nil }
        return DeviceID(rawValue: high)
    }
}
