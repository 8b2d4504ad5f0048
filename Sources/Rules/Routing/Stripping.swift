package import Bytes
package import SIPGrammar

extension RequestEdits {
    /// Removes header fields that must not leave this daemon: identity fields of an untrusted sender (T9.7), and
    /// credentials for the daemon's own realms (T9.8). If this daemon accepts bearer tokens, all bearer tokens are
    /// removed, because they name no realm (T40.7).
    ///
    /// - Parameters:
    ///   - incoming: the request.
    ///   - stripped: the setting `stripped`, which applies to untrusted senders.
    ///   - realms: the daemon's own realms.
    ///   - takesTokens: whether this daemon accepts bearer tokens.
    package mutating func strip(
        _ incoming: IncomingRequest, _ stripped: HeaderFilter, realms: [ByteString], takesTokens: Bool
    ) {
        if !incoming.isTrusted { filter = stripped }
        ownRealms = realms
        dropsTokens = takesTokens
    }
}

extension SIPRequest {
    /// Whether a 2xx to the request begins a dialog.
    package var makesDialog: Bool {
        guard to.tag == nil else { return false }
        switch method {
        case .invite, .subscribe, .refer, .notify: return true
        case .ack, .bye, .cancel, .register, .options, .prack, .update, .info, .message, .publish, .other: return false
        }
    }
}
