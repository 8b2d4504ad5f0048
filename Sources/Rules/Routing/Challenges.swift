package import Bytes
package import SIPGrammar

extension SIPResponse {
    /// Whether a 401 or 407 asks for passwords only in the given realms.
    ///
    /// A challenge in the daemon's own realms is useless, because the daemon removes credentials for its realms from
    /// requests (T9.8, T9.17).
    package func challengesOnly(in realms: [ByteString]) -> Bool {
        guard status == .unauthorized || status == .proxyAuthenticationRequired else { return false }
        var isChallenge = false
        for field in frame.fields where field.name == .wwwAuthenticate || field.name == .proxyAuthenticate {
            guard frame.credentials(field, areFor: realms) else { return false }
            isChallenge = true
        }
        return isChallenge
    }
}
