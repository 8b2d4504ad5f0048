import Bytes

/// Recognises values of Alert-Info and Call-Info that contain no command for a phone, such as the command to answer
/// (T9.13).
///
/// Vendors put commands into Alert-Info and Call-Info: `;info=alert-autoanswer`, `Ring Answer`, `;answer-after=0`,
/// `intercom`, or settings of a phone. Nobody can list all harmful values, so ``HarmlessValue`` accepts only a few
/// harmless forms.
enum HarmlessValue {
    /// Whether each value of an Alert-Info field is a name of RFC 7462 without parameters, such as
    /// `<urn:alert:source:external>`.
    static func namesTones(_ value: Span<UInt8>) -> Bool {
        var index = 0
        repeat {
            let name: StaticString = "<urn:alert:"
            skipBlanks(value, &index)
            let end = index + name.utf8CodeUnitCount
            guard end < value.count, value.equalsIgnoringCase(index..<end, name) else { return false }
            index = end
            while index < value.count, isPartOfName(value[index]) { index += 1 }
            guard take(">", value, &index) else { return false }
        } while take(",", value, &index)
        return index == value.count && !mentionsAnswer(value)
    }

    /// Whether each value of a Call-Info field is a URI whose only parameter is `purpose` (RFC 3261 section 20.9).
    static func namesPurposes(_ value: Span<UInt8>) -> Bool {
        var index = 0
        repeat {
            guard take("<", value, &index) else { return false }
            index = value.firstIndex(of: UInt8(ascii: ">"), in: index..<value.count) ?? value.count
            guard take(">", value, &index) else { return false }
            while take(";", value, &index) {
                guard value.equalsIgnoringCase(takeToken(value, &index), "purpose"), take("=", value, &index),
                    !takeToken(value, &index).isEmpty
                else { return false }
            }
        } while take(",", value, &index)
        return index == value.count && !mentionsAnswer(value)
    }

    /// Whether a Call-Info value contains the word "answer", which some phones obey anywhere in the value.
    private static func mentionsAnswer(_ value: Span<UInt8>) -> Bool {
        let word: StaticString = "answer"
        var index = 0
        while index + word.utf8CodeUnitCount <= value.count {
            if value.equalsIgnoringCase(index..<index + word.utf8CodeUnitCount, word) { return true }
            index += 1
        }
        return false
    }

    private static func isPartOfName(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: ":") || byte == UInt8(ascii: "-")
    }

    /// Skips the given character and the white space around it; returns false if another byte comes first.
    private static func take(_ character: Unicode.Scalar, _ value: Span<UInt8>, _ index: inout Int) -> Bool {
        skipBlanks(value, &index)
        guard index < value.count, value[index] == UInt8(ascii: character) else { return false }
        index += 1
        skipBlanks(value, &index)
        return true
    }

    private static func takeToken(_ value: Span<UInt8>, _ index: inout Int) -> Range<Int> {
        let start = index
        while index < value.count, value[index].isToken { index += 1 }
        return start..<index
    }

    private static func skipBlanks(_ value: Span<UInt8>, _ index: inout Int) {
        while index < value.count, value[index] <= UInt8(ascii: " ") { index += 1 }
    }
}
