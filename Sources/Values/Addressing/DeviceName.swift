/// A short name for a device, which people can read and type: a letter and four letters or digits. The name is computed
/// from the device id. The name of a device depends only on the id, so the name is the same in logs, in lists and after
/// restarts, and need not be stored.
///
/// A device id has 64 bits and a device name only 24 bits, so devices of different users can have the same name. The
/// devices of one user have different names, because ids whose names the user's devices already have are skipped
/// (``DeviceID/following(unless:)``).
extension DeviceID {
    /// The 32 characters of Crockford's alphabet: all digits, and all letters except i, l and o, which resemble digits,
    /// and u, which could form rude words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// The letters with which device names begin. A device name begins with a letter, so that people do not mistake the
    /// name for a number.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The 24 bits from which the name is made: Knuth's multiplicative hash of the device id. Because of the
    /// multiplication, consecutive device ids have very different names.
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` identifies the device, by its name in upper or lower case or by its device id in decimal digits.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// The first device id, from this id on, whose name no other device of the user has. The closure `isTaken` returns
    /// whether another device of the user has the name of an id.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // The search for a free name ends soon: a user has few devices, and there are millions of names.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
