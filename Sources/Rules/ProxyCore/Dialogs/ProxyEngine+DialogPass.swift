import Addressing
import Bytes
import Registration
import SIPGrammar
import SIPTransactions
import Timekeeping

/// Reads our token in the Route of a request inside a dialog.
extension ProxyEngine {
    /// Whether the Route of a request has our dialog token, a forged token or none, and where the request goes next.
    func route(of request: SIPRequest) -> RouteSet.Kind {
        RouteSet.preprocess(request, identity: identity) { pass($0, of: request) }
    }

    /// Opens the token for the request that brings it; `nil` if the token is not ours, or was made for another call.
    func pass(_ text: ByteString, of request: SIPRequest) -> DialogPass? {
        // Outside a dialog, the token means nothing, no matter who sends it (T20.3).
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

    /// A request in the second half of a dialog's life makes the dialog live as long as a new one.
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
