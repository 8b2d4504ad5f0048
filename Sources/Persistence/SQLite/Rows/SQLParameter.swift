import Addressing
import Bytes
import PushDelivery
import Storage
import Timekeeping

/// A value that can be bound to a `?` of a statement.
protocol SQLParameter {
    func bind(to statement: Statement, at index: Int)
}

extension Connection {
    /// The statement with its parameters, in their order.
    func statement<each Parameter: SQLParameter>(
        _ sql: String, with parameters: repeat each Parameter
    ) throws(SQLError) -> Statement {
        let statement = try statement(sql)
        statement.bind(repeat each parameters)
        return statement
    }

    func run<each Parameter: SQLParameter>(
        _ sql: StaticString, _ parameters: repeat each Parameter
    ) throws(SQLError) {
        let statement = try statement(fixed: sql)
        statement.bind(repeat each parameters)
        try statement.run()
    }
}

extension Statement {
    fileprivate func bind<each Parameter: SQLParameter>(_ parameters: repeat each Parameter) {
        var index = 0
        for parameter in repeat each parameters {
            index += 1
            parameter.bind(to: self, at: index)
        }
    }
}

extension String: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, text: self) }
}

/// Byte strings are bound as text, which may hold any bytes.
extension ByteString: SQLParameter {
    func bind(to statement: Statement, at index: Int) { withSpan { statement.bind(index, text: $0) } }
}

/// Bytes are bound as a blob.
extension [UInt8]: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, blob: span) }
}

extension SQLParameter where Self: BinaryInteger {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: Int64(self)) }
}

extension Int64: SQLParameter {}
extension Int: SQLParameter {}
extension UInt32: SQLParameter {}
extension UInt16: SQLParameter {}

/// SQLite knows no unsigned numbers: those of the upper half are stored as negative ones.
extension UInt64: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: Int64(bitPattern: self)) }
}

extension Bool: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: self ? 1 : 0) }
}

extension UnixTime: SQLParameter {
    func bind(to statement: Statement, at index: Int) { statement.bind(index, integer: milliseconds) }
}

extension DeviceID: SQLParameter {
    func bind(to statement: Statement, at index: Int) { rawValue.bind(to: statement, at: index) }
}

// What is written for each call and each contact is put together from bytes: a `String` costs several times as much.

extension CallRef: SQLParameter {
    func bind(to statement: Statement, at index: Int) {
        var text: [UInt8] = []
        text.reserveCapacity(16)
        for place in stride(from: 56, through: 0, by: -8) {
            text.append(hex: UInt8(truncatingIfNeeded: rawValue >> UInt64(place)))
        }
        statement.bind(index, text: text.span)
    }
}

extension PushCode: SQLParameter {
    func bind(to statement: Statement, at index: Int) {
        var text: [UInt8] = []
        text.reserveCapacity(36)
        append(to: &text)
        statement.bind(index, text: text.span)
    }
}

extension Endpoint: SQLParameter {
    func bind(to statement: Statement, at index: Int) {
        guard address.isV4 else { return statement.bind(index, text: description) }
        var text: [UInt8] = []
        text.reserveCapacity(24)
        for place in stride(from: 24, through: 0, by: -8) {
            text.append(decimal: UInt8(truncatingIfNeeded: address.v4Bits >> UInt32(place)))
            text.append(place > 0 ? UInt8(ascii: ".") : UInt8(ascii: ":"))
        }
        text.append(decimal: port)
        statement.bind(index, text: text.span)
    }
}

/// The numbers of devices with commas between them.
struct DeviceNumbers: SQLParameter {
    let devices: [DeviceID]

    func bind(to statement: Statement, at index: Int) {
        var text: [UInt8] = []
        text.reserveCapacity(24 * devices.count)
        for device in devices {
            if !text.isEmpty { text.append(UInt8(ascii: ",")) }
            text.append(decimal: device.rawValue)
        }
        statement.bind(index, text: text.span)
    }
}

/// A value or NULL.
extension Optional: SQLParameter where Wrapped: SQLParameter {
    func bind(to statement: Statement, at index: Int) {
        if let self { self.bind(to: statement, at: index) } else { statement.bindNull(index) }
    }
}

/// A number or NULL, in rows that are written often: an `Optional` has to be asked at run time what it is made of.
struct NullableInteger: SQLParameter {
    private let value: Int64?

    init(_ value: (some BinaryInteger)?) { self.value = value.map { Int64($0) } }
    init(_ date: UnixTime?) { value = date?.milliseconds }

    func bind(to statement: Statement, at index: Int) {
        if let value { statement.bind(index, integer: value) } else { statement.bindNull(index) }
    }
}

/// The word of a case or NULL, for the same reason.
struct NullableWord: SQLParameter {
    private let word: String?

    init(_ value: (some RawRepresentable<String>)?) { word = value?.rawValue }

    func bind(to statement: Statement, at index: Int) {
        if let word { statement.bind(index, text: word) } else { statement.bindNull(index) }
    }
}
