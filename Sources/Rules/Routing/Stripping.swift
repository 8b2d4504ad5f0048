package import Bytes
package import SIPGrammar

extension RequestEdits {
    /// Removes header fields that this daemon must not forward: the identity fields of an untrusted sender (T9.7), and
    /// credentials for the daemon's realms (T9.8). A daemon that accepts bearer tokens removes all bearer tokens,
    /// because they name no realm (T40.7).
    ///
    /// - Parameters:
    ///   - incoming: the request.
    ///   - stripped: the header fields in the setting `strip-headers`, which applies to untrusted senders.
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
