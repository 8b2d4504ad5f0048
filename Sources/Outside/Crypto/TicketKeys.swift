import COpenSSL
import Synchronization

/// The keys that encrypt TLS session tickets (RFC 5077 section 4).
///
/// Each key is used for a short time, because a thief of the key can decrypt the sessions of its tickets. A key
/// encrypts tickets until the next ``rotate()``, and decrypts them until the second ``rotate()``. Keys are never
/// written to disk, so phones make full handshakes after a restart.
package final class TicketKeys: Sendable {
    private struct Key {
        var name: [UInt8]
        /// 32 bytes for the cipher, and 32 for the authentication code.
        var secret: [UInt8]

        init() throws(TLSError) {
            do throws(CryptoError) {
                name = try RandomBytes.make(16)
                secret = try RandomBytes.make(64)
            } catch {
                throw .library("no random bytes")
            }
        }
    }

    /// The current key, then the previous key if it exists.
    private let keys: Mutex<[Key]>

    package init() throws(TLSError) { keys = Mutex([try Key()]) }

    /// Creates the key for all later tickets; without random bytes, the previous key stays in use.
    package func rotate() {
        guard let key = try? Key() else { return }
        keys.withLock { $0 = [key] + $0.prefix(1) }
    }

    /// Sets up OpenSSL's contexts for encrypting or decrypting a session ticket. The result for OpenSSL is -1 for an
    /// error, 0 for a full handshake, 1 for a valid ticket, 2 for a ticket to renew.
    fileprivate func seal(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer,
        _ mac: OpaquePointer
    ) -> Int32 {
        guard let key = keys.withLock({ $0.first }), let fresh = try? RandomBytes.make(16) else { return -1 }
        for index in 0..<16 {
            unsafe name[index] = key.name[index]
            unsafe iv[index] = fresh[index]
        }
        return unsafe tls_use_ticket_secret(cipher, mac, key.secret, iv, 1) == 1 ? 1 : -1
    }

    fileprivate func open(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer,
        _ mac: OpaquePointer
    ) -> Int32 {
        let asked = unsafe Array(UnsafeBufferPointer(start: name, count: 16))
        let found = keys.withLock { keys in keys.firstIndex { $0.name == asked }.map { (keys[$0], $0 > 0) } }
        guard let (key, isOld) = found else { return 0 }
        guard unsafe tls_use_ticket_secret(cipher, mac, key.secret, iv, 0) == 1 else { return -1 }
        return isOld ? 2 : 1
    }
}

func sealTicket(
    _ session: OpaquePointer?, _ name: UnsafeMutablePointer<UInt8>?, _ iv: UnsafeMutablePointer<UInt8>?,
    _ cipher: OpaquePointer?, _ mac: OpaquePointer?, _ seals: Int32
) -> Int32 {
    guard let session = unsafe session, let name = unsafe name, let iv = unsafe iv, let cipher = unsafe cipher,
        let mac = unsafe mac, let context = unsafe tls_ticket_keys(session)
    else { return -1 }
    let keys = unsafe Unmanaged<TicketKeys>.fromOpaque(context).takeUnretainedValue()
    return unsafe seals == 1 ? keys.seal(name, iv, cipher, mac) : keys.open(name, iv, cipher, mac)
}
