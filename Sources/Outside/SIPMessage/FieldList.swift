import Bytes
import SIPGrammar

/// The header fields of a message that is being parsed. A ``FieldList`` of up to 32 values needs no memory allocation.
struct FieldList {
    private var few = [32 of HeaderField](repeating: HeaderField(name: .other, row: 0..<0, value: 0..<0))
    private var rest: [HeaderField] = []
    private(set) var count = 0

    mutating func append(_ field: HeaderField) {
        if count < few.count { few[count] = field } else { rest.append(field) }
        count += 1
    }

    /// Writes the fields into the message's storage, from `start` on, where ``HeaderFields`` reads them.
    func store(in storage: ByteStorage, at start: Int) -> HeaderFields {
        let span = few.span
        for index in 0..<Swift.min(count, few.count) {
            storage.store(span[index], at: start + HeaderFields.room(for: index))
        }
        for (index, field) in rest.enumerated() {
            storage.store(field, at: start + HeaderFields.room(for: few.count + index))
        }
        return HeaderFields(in: storage, at: start, count: count)
    }
}

extension FieldList: RandomAccessCollection {
    var startIndex: Int { 0 }
    var endIndex: Int { count }

    // A span is used, because indexing the array itself would copy the whole array.
    subscript(index: Int) -> HeaderField { index < few.count ? few.span[index] : rest[index - few.count] }
}
