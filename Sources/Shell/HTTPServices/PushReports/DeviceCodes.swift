import Addressing
import Bytes
import Crypto
import Persistence
import ProxyRuntime
import Timekeeping

/// Creates the codes by which apps name their devices. Nobody can create a code without the daemon's key, and a code
/// reveals nothing about the device (T7).
///
/// A device code consists of a tag and a masked device number. The tag of a device code has 128 bits, and is computed
/// from the device's number, as a synthetic initialisation vector. A keystream that is derived from the tag masks the
/// device's number. A device always has the same code, so no code needs to be stored.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class DeviceCodes: @unchecked Sendable {
    private var key: HMACKey

    /// The number of characters in a device code: tag and masked number in base64url.
    static let length = 32
    private static let tagLength = 16
    /// The name under which the store keeps the key of the device codes.
    static let noteKey = "device-code-key"
    static let keyLength = PermanentSecret.byteCount

    init(key: [UInt8]) throws(CryptoError) { self.key = try HMACKey(key.span) }

    func code(of device: DeviceID) -> String {
        let tag = tag(device)
        let masked = Self.bytes(device.rawValue ^ mask(tag))
        return String(decoding: Base64.url.encode(tag + masked), as: UTF8.self)
    }

    /// Returns the device with the given code; `nil` if this daemon did not create the code.
    func device(of code: some StringProtocol) -> DeviceID? {
        guard code.utf8.count == Self.length, let bytes = Base64.url.decode(Array(code.utf8)) else { return nil }
        let given = Array(bytes.prefix(Self.tagLength))
        let masked = bytes.dropFirst(Self.tagLength).reduce(0 as UInt64) { $0 << 8 | UInt64($1) }
        let device = DeviceID(rawValue: masked ^ mask(given))
        return equalInConstantTime(tag(device), given) ? device : nil
    }

    private func tag(_ device: DeviceID) -> [UInt8] {
        Array(key.code(for: [1] + Self.bytes(device.rawValue)).prefix(Self.tagLength))
    }

    private func mask(_ tag: [UInt8]) -> UInt64 {
        key.code(for: [2] + tag).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * $0)) }
    }
}

extension DeviceCodes {
    /// Loads the key of the device codes from the store. The first start creates the key and stores it before any code
    /// is created. Stores of version 0.1 have the key in a note.
    static func load(_ store: any ProxyStore, now: UnixTime) async throws(StartError) -> DeviceCodes {
        let note = try await StartError.wrapping { () async throws(StoreError) in try await store.note(noteKey) }
        var key = note.flatMap { Hex.decode(Array($0.utf8)) } ?? []
        if key.count != keyLength { key = try await PermanentSecret.load(noteKey, from: store, now: now) }
        do throws(CryptoError) {
            return try DeviceCodes(key: key)
        } catch {
            throw StartError("cannot create a key for device codes: \(error)")
        }
    }
}
