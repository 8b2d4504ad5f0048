import Addressing
import Bytes
import Calling
import ProxyCore
import Registration
import Timekeeping

/// Values of tables with few columns.
extension StoredRow {
    var storedKey: StoredKey {
        StoredKey(
            name: text(0), hash: Hex.decode(bytes(1)) ?? [], scopes: text(2),
            createdAt: UnixTime(milliseconds: integer(3)), domains: text(4))
    }

    var storedMobileApp: StoredMobileApp {
        StoredMobileApp(
            name: text(0), id: text(1), organisation: text(2), tokenHash: Hex.decode(bytes(3)) ?? [], user: text(4),
            appleProvider: text(5), appleParam: optionalText(6), googleParam: optionalText(7),
            createdAt: UnixTime(milliseconds: integer(8)))
    }

    /// The link in the current row; `nil` if the row is malformed.
    var storedProvisionLink: StoredProvisionLink? {
        guard let hash = Hex.decode(bytes(0)), hash.count == 32 else { return nil }
        return StoredProvisionLink(
            hash: hash, name: byteString(1), realm: byteString(2), domain: byteString(3),
            createdAt: UnixTime(milliseconds: integer(4)), expiresAt: UnixTime(milliseconds: integer(5)),
            setsPassword: integer(6) != 0, creator: text(7),
            usedAt: integer(8) > 0 ? UnixTime(milliseconds: integer(8)) : nil, usedFrom: text(9))
    }

    /// The rules in the current row; `nil` if a later version of the daemon wrote the rules in another form.
    var storedUserRules: StoredUserRules? {
        StoredUserRules(aor: AddressOfRecord(user: byteString(0), host: byteString(1)), text: text(2))
    }

    /// The renewal in the current row; `nil` if the row is malformed.
    var storedDialogRenewal: DialogRenewal? {
        let digest = bytes(0)
        guard digest.count == 8 else { return nil }
        return DialogRenewal(
            digest: digest.reduce(0) { $0 << 8 | UInt64($1) }, until: UnixTime(milliseconds: integer(1)))
    }

    func storedSecret(named name: String) -> StoredSecret {
        StoredSecret(name: name, createdAt: UnixTime(milliseconds: integer(0)), value: bytes(1))
    }
}

extension DialogRenewal {
    /// The digest of the dialog as eight bytes, the highest byte first.
    var digestBytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(big: digest)
        return bytes
    }
}
