import Addressing
import Bytes
import Calling
import LocationService
import ProxyPolicy
import Registration
import Routing
import SIPDialogs
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Makes the Record-Route with the dialog token for a request that begins a dialog.
extension ProxyEngine {
    /// The Record-Route values of a request that begins a dialog. If the two sides of the dialog use different
    /// listeners, there are two values, otherwise one.
    func recordRoutes(
        _ incoming: IncomingRequest, _ edits: RequestEdits, to flow: Flow, device: DeviceID?, now: Moment
    ) -> [ByteString] {
        guard let inbound = identity.listener(incoming.flow.listener), let next = identity.listener(flow.listener)
        else { return [] }
        let outbound = next.isForNodes ? listenerForPhone(device, instead: inbound) : next
        let user = dialogToken(incoming, to: flow, device: device, now: now)
        let isSIPS = edits.requestURI.isSIPS
        let callee = Self.recordRoute(user, outbound, isSIPS: isSIPS)
        guard inbound.number != outbound.number else { return [callee] }
        return [callee, Self.recordRoute(user, inbound, isSIPS: isSIPS && inbound.transport.isSecure)]
    }

    /// The listener whose transport a phone at another node uses, so that the phone can send to any node.
    private func listenerForPhone(_ device: DeviceID?, instead other: Listener) -> Listener {
        let transport = device.flatMap { registrar.bindings.flow(of: $0)?.transport }
        return identity.listeners.first { $0.transport == transport && !$0.isForNodes } ?? other
    }

    static func recordRoute(_ user: [UInt8], _ listener: Listener, isSIPS: Bool) -> ByteString {
        ByteString(capacity: user.count + listener.sentBy.count + 32) { value in
            value.append(isSIPS ? "<sips:" : "<sip:")
            value.append(user.span)
            value.append("@")
            value.append(listener.sentBy)
            if listener.transport != .udp {
                value.append(";transport=")
                // The transport parameter of a URI is `ws` for WebSocket with and without TLS (RFC 7118).
                value.append(text: (listener.transport == .wss ? .ws : listener.transport).parameterName)
            }
            value.append(";lr>")
        }
    }

    /// The encrypted dialog token for the Record-Route, by which the proxy recognises later requests of the dialog.
    func dialogToken(_ incoming: IncomingRequest, to flow: Flow, device: DeviceID?, now: Moment) -> [UInt8] {
        let callee = device.map { DialogSide(.phone($0), on: flow) } ?? DialogSide(.upstream, on: flow)
        let caller = callersSide(incoming)
        let (holdsCaller, holdsCallee) = (caller.party.isPhone, callee.party.isPhone)
        var names: DialogNames?
        if holdsCaller || holdsCallee {
            names = DialogNames(
                of: incoming.request, sip.transactions.branchKey, holdsCaller: holdsCaller, holdsCallee: holdsCallee)
        }
        let token = DialogToken(made: now.date, caller: caller, callee: callee, names: names)
        return functions.seal.seal(
            token.encoded(in: dialogs.run), incoming.request.callID, incoming.request.from.tag ?? .empty)
    }

    private func callersSide(_ incoming: IncomingRequest) -> DialogSide {
        if isTrusted(incoming.flow) { return DialogSide(.peer, on: incoming.flow) }
        if let binding = registrar.device(calling: incoming, identity) {
            return DialogSide(.phone(binding), on: incoming.flow)
        }
        return DialogSide(.caller(incoming.sender.map { hash(of: $0) } ?? 0), on: incoming.flow)
    }

    /// The 48-bit hash of an AOR, by which a dialog token names the user. Nobody can choose a user name that has
    /// another user's hash, because the dialog token is encrypted.
    func hash(of aor: AddressOfRecord) -> UInt64 {
        var text = aor.user.array
        text.append("@")
        text.append(aor.host)
        let hash = functions.digest.hash(.sha256, text).prefix(6).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        return max(hash, 1)
    }
}

/// Reads the daemon's dialog token from the Route of a request inside a dialog.
extension ProxyEngine {
    /// The kind of a request's Route (with a dialog token, with a forged dialog token or without token), and the next
    /// hop of the request.
    func route(of request: SIPRequest) -> RouteSet.Kind {
        RouteSet.preprocess(request, identity: identity, hasNodes: network.flows.haveNodes) { pass($0, of: request) }
    }

    /// Decrypts the dialog token in a request; `nil` if the dialog token is forged or belongs to another call.
    func pass(_ text: ByteString, of request: SIPRequest) -> DialogPass? {
        // A dialog token has no effect in a request outside a dialog, even from the phone that got the token (T20.3).
        guard let toTag = request.to.tag, !toTag.isEmpty else { return nil }
        let fromTag = request.from.tag ?? .empty
        if let opened = functions.seal.open(text, request.callID, fromTag) {
            return pass(opened, isFromCaller: true)
        }
        return functions.seal.open(text, request.callID, toTag).flatMap { pass($0, isFromCaller: false) }
    }

    func pass(_ opened: DialogSeal.Opened, isFromCaller: Bool) -> DialogPass? {
        DialogToken(opened.plain, in: dialogs.run).map {
            DialogPass(token: $0, isFromCaller: isFromCaller, digest: opened.digest)
        }
    }

    func isAlive(_ pass: DialogPass, now: Moment) -> Bool {
        now.date <= dialogs.renewals.end(of: pass.digest, made: pass.token.made, lifetime: settings.call.dialogLifetime)
    }

    /// Renews a dialog's expiry time if less than half of the dialog's lifetime is left.
    func renew(_ pass: DialogPass, now: Moment) {
        let lifetime = settings.call.dialogLifetime
        let end = dialogs.renewals.end(of: pass.digest, made: pass.token.made, lifetime: lifetime)
        let rest = end - now.date
        guard rest + rest < lifetime else { return }
        let until = now.date + lifetime
        dialogs.renewals.renew(pass.digest, until: until, now: now.date)
        act(.record([.dialogRenewed(pass.digest, until: until)]))
    }
}
