import Addressing
import Bytes
import PushDelivery
import Timekeeping

/// A value that can be bound to a parameter (`?`) of a statement.
protocol SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int)
}

/// The parameters of a statement, counted from 1. Each database has its own type of parameters. A text can have any
/// bytes, and a parameter that is not bound is NULL.
protocol SQLParameters {
    func bind(_ index: Int, integer: Int64)
    func bind(_ index: Int, text: String)
    func bind(_ index: Int, text: Span<UInt8>)
    func bind(_ index: Int, blob: Span<UInt8>)
    func bindNull(_ index: Int)
}

/// Binds values to the parameters of a statement, one after the other. ``ParameterList`` is for frequent writes,
/// because a variadic function would copy the values and look up their types.
struct ParameterList<Statement: SQLParameters>: ~Copyable {
    private let statement: Statement
    private var index = 0

    init(_ statement: Statement) { self.statement = statement }

    mutating func add(_ value: some SQLParameter) {
        index += 1
        value.bind(to: statement, at: index)
    }

    mutating func add(orNull value: (some SQLParameter)?) {
        if let value { add(value) } else { index += 1 }
    }

    mutating func add(number value: (some BinaryInteger)?) { add(orNull: value.map { Int64($0) }) }

    mutating func add(word value: (some RawRepresentable<String>)?) { add(orNull: value?.rawValue) }
}

extension String: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, text: self) }
}

/// Binds a byte string as text. SQLite does not check that the bound text is UTF-8.
extension ByteString: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { withSpan { statement.bind(index, text: $0) } }
}

/// Binds an array of bytes as a blob.
extension [UInt8]: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, blob: span) }
}

extension SQLParameter where Self: BinaryInteger {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, integer: Int64(self)) }
}

extension Int64: SQLParameter {}
extension Int: SQLParameter {}
extension UInt32: SQLParameter {}
extension UInt16: SQLParameter {}

/// Binds an unsigned number. SQLite has only signed numbers, so numbers from 2^63 on are stored as negative numbers.
extension UInt64: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) {
        statement.bind(index, integer: Int64(bitPattern: self))
    }
}

extension Bool: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, integer: self ? 1 : 0) }
}

extension UnixTime: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, integer: milliseconds) }
}

extension DeviceID: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { rawValue.bind(to: statement, at: index) }
}

// The values of a ``CallRef`` and of the types below are written for each call and each contact. Their text is made
// from bytes, because making a `String` would take several times as long.

extension CallRef: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, text: rawValue.hexDigits.span) }
}

extension PushCode: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) { statement.bind(index, text: text.span) }
}

extension Endpoint: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) {
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

/// The numbers of devices, written as a text with commas between them.
struct DeviceNumbers: SQLParameter {
    let devices: [DeviceID]

    func bind(to statement: some SQLParameters, at index: Int) {
        var text: [UInt8] = []
        text.reserveCapacity(24 * devices.count)
        for device in devices {
            if !text.isEmpty { text.append(UInt8(ascii: ",")) }
            text.append(decimal: device.rawValue)
        }
        statement.bind(index, text: text.span)
    }
}

/// Binds the value, or NULL for `nil`.
extension Optional: SQLParameter where Wrapped: SQLParameter {
    func bind(to statement: some SQLParameters, at index: Int) {
        if let self { self.bind(to: statement, at: index) } else { statement.bindNull(index) }
    }
}
