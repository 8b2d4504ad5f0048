import Bytes
import Testing

@Suite("Search in bytes")
struct ByteSearchTests {
    @Test func `letters are equal in either case, and no other bytes are`() {
        let lowercase: StaticString = "abcdefghijklm-nopqrstuvwxyz0189"
        let text = Array("ABCDEFGHIJKLM-NOPQRSTUVWXYZ0189".utf8)
        for place in text.indices {
            for byte in UInt8.min ... .max {
                var other = text
                other[place] = byte
                let isSame = byte.asciiLowercased == text[place].asciiLowercased
                #expect(ByteString(other).equalsIgnoringCase(lowercase) == isSame, "\(byte) at \(place)")
            }
        }
        #expect(!ByteString(text.dropLast()).equalsIgnoringCase(lowercase))
    }

    @Test func `a byte is found at its first place`() {
        for length in 1..<40 {
            for place in 0..<length {
                // The filling byte is one greater than the wanted byte, because the search must not mistake the filling
                // byte for the wanted byte.
                var text = [UInt8](repeating: UInt8(ascii: ":") + 1, count: length)
                text[place] = UInt8(ascii: ":")
                text[length - 1] = UInt8(ascii: ":")
                #expect(ByteString(text).firstIndex(of: UInt8(ascii: ":")) == place)
                #expect(ByteString(text)[0..<place].firstIndex(of: UInt8(ascii: ":")) == nil)
            }
        }
    }

    @Test func `a search in any part of any text finds the same as a byte-wise search`() {
        let marks = Array("a:;\"".utf8)
        for length in 0..<52 {
            // The text is mostly zeros with few marks, because the search must not mistake zeros for the end.
            let text = (0..<length).map { place in (place * 7 + length * 5) % 23 < 4 ? marks[(place + length) % 4] : 0 }
            for start in 0...length {
                for end in start...length {
                    func first(_ wanted: [UInt8]) -> Int { text[start..<end].firstIndex(where: wanted.contains) ?? end }
                    let (span, range) = (text.span, start..<end)
                    let colon = UInt8(ascii: ":")
                    let places = [
                        span.firstIndex(of: colon, in: range) ?? end,
                        span.firstPlace(of: colon, or: UInt8(ascii: ";"), in: range),
                        span.firstPlace(of: colon, UInt8(ascii: "a"), or: UInt8(ascii: ";"), in: range),
                        span.firstPlace(in: range) { $0 .== SIMD16(repeating: 0) },
                    ]
                    let expected = [":", ":;", ":a;", "\0"].map { first(Array($0.utf8)) }
                    if places != expected { Issue.record("\(text) in \(range): \(places), not \(expected)") }
                }
            }
        }
    }

    @Test func `words of any length are compared to their last byte`() {
        let word: StaticString = "record-route-or-more"
        for length in 0...20 {
            let text = Array("xRECORD-route-OR-MORE:".utf8)
            let range = 1..<1 + length
            let isSame = text.span.equalsIgnoringCase(range, word)
            #expect(isSame == (length == 20))
            let lowercase = Array("record-route-or-more".utf8.prefix(min(length, 8)))
            let expected = lowercase.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let found = text.span.lowercasedWord(range)
            #expect(found == expected, "\(length) bytes")
        }
        #expect(word.word == Array("record-r".utf8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        let short: [StaticString] = ["a", "to", "via", "from", "route", "accept", "contact", "replaces", "supported"]
        for name in short {
            let text = Array(name.description.utf8)
            let isSame = text.span.equalsIgnoringCase(0..<text.count, name)
            #expect(isSame)
            for place in text.indices {
                var other = text
                other[place] ^= 2
                let isDifferent = !other.span.equalsIgnoringCase(0..<text.count, name)
                #expect(isDifferent, "\(name) at \(place)")
            }
        }
    }
}
