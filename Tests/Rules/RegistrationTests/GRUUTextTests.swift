import Bytes
import Testing

@testable import Registration

@Suite("Text of a public GRUU (RFC 5627)")
struct GRUUTextTests {
    private func publicGRUU(user: String, instance: String) -> String {
        let aor = AddressOfRecord(user: ByteString(user), host: ByteString("pn.test"))
        return String(decoding: written(aor, instance: Array(instance.utf8)), as: UTF8.self)
    }

    /// Returns the text that is appended after a contact with the given instance.
    private func written(_ aor: AddressOfRecord, instance: [UInt8]) -> [UInt8] {
        let bytes = [UInt8](capacity: 16) { out in
            out.append("<")
            out.append(instance.span)
            GRUU.appendPublic(of: aor, instanceAt: 1..<1 + instance.count, to: &out)
        }
        return Array(bytes.dropFirst(1 + instance.count))
    }

    @Test func `an instance of letters, digits and colons is written unchanged, at any length`() {
        for length in [1, 15, 16, 17, 45] {
            let instance = String("urn:uuid:CC30c5c7-9f0A-4d1c-8a77-z0/9.AZaz:-x".suffix(length))
            #expect(publicGRUU(user: "u", instance: instance) == ";pub-gruu=\"sip:u@pn.test;gr=\(instance)\"")
        }
    }

    @Test(arguments: 0..<256)
    func `a byte is escaped unless a parameter may contain it, at any place`(_ byte: Int) {
        guard let byte = UInt8(exactly: byte) else { return }
        for place in [0, 5, 15, 16, 20] {
            var instance = [UInt8](repeating: UInt8(ascii: "a"), count: 21)
            instance[place] = byte
            let aor = AddressOfRecord(user: ByteString("u"), host: ByteString("h"))
            let text = self.written(aor, instance: instance)
            let plain = Set("[]/:&+$-_.!~*'()".utf8).contains(byte) || byte.isASCIILetter || byte.isASCIIDigit
            let hex = String(byte, radix: 16, uppercase: true)
            let written = plain ? [byte] : Array((byte < 16 ? "%0\(hex)" : "%\(hex)").utf8)
            let expected =
                Array(";pub-gruu=\"sip:u@h;gr=".utf8) + instance[..<place] + written + instance[(place + 1)...]
            #expect(text == expected + Array("\"".utf8))
        }
    }
}
