import CYAML

/// The events of libyaml's parser, as Swift values.
enum YAMLEvent {
    case scalar(String, isPlain: Bool)
    case sequenceStart
    case sequenceEnd
    case mappingStart
    case mappingEnd
    case alias
    case documentStart
    case documentEnd
    case streamStart
    case streamEnd
}

struct YAMLMarkedEvent {
    let event: YAMLEvent
    let position: YAMLPosition
    /// Whether an anchor (`&name`) or a tag (`!tag`) precedes the YAML value.
    let isDecorated: Bool
}

struct YAMLSyntaxError: Error {
    let position: YAMLPosition
    let message: String
}

/// The sole owner of one `yaml_parser_t` of libyaml, and of the bytes that it parses.
@safe struct YAMLEvents: ~Copyable {
    /// The parser is on the heap, because libyaml stores pointers to it.
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private let input: UnsafeMutableBufferPointer<UInt8>

    init(_ bytes: [UInt8]) throws(YAMLSyntaxError) {
        unsafe parser = .allocate(capacity: 1)
        unsafe input = .allocate(capacity: bytes.count)
        guard unsafe yaml_parser_initialize(parser) == 1 else {
            unsafe parser.deallocate()
            unsafe input.deallocate()
            throw YAMLSyntaxError(position: .start, message: "out of memory")
        }
        _ = unsafe input.initialize(from: bytes)
        unsafe yaml_parser_set_input_string(parser, input.baseAddress, bytes.count)
        unsafe yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
    }

    deinit {
        unsafe yaml_parser_delete(parser)
        unsafe parser.deallocate()
        unsafe input.deallocate()
    }

    mutating func next() throws(YAMLSyntaxError) -> YAMLMarkedEvent {
        var raw = unsafe yaml_event_t()
        guard unsafe yaml_parser_parse(parser, &raw) == 1 else { throw syntaxError() }
        defer { unsafe yaml_event_delete(&raw) }
        let position = YAMLPosition(unsafe raw.start_mark)
        switch unsafe raw.type {
        case YAML_SCALAR_EVENT:
            let scalar = unsafe raw.data.scalar
            let text = unsafe String(
                decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
            return YAMLMarkedEvent(
                event: .scalar(text, isPlain: unsafe scalar.style == YAML_PLAIN_SCALAR_STYLE), position: position,
                isDecorated: unsafe scalar.anchor != nil || scalar.tag != nil)
        case YAML_SEQUENCE_START_EVENT:
            let start = unsafe raw.data.sequence_start
            return YAMLMarkedEvent(
                event: .sequenceStart, position: position, isDecorated: unsafe start.anchor != nil || start.tag != nil)
        case YAML_MAPPING_START_EVENT:
            let start = unsafe raw.data.mapping_start
            return YAMLMarkedEvent(
                event: .mappingStart, position: position, isDecorated: unsafe start.anchor != nil || start.tag != nil)
        case YAML_SEQUENCE_END_EVENT: return plain(.sequenceEnd, position)
        case YAML_MAPPING_END_EVENT: return plain(.mappingEnd, position)
        case YAML_ALIAS_EVENT: return plain(.alias, position)
        case YAML_DOCUMENT_START_EVENT: return plain(.documentStart, position)
        case YAML_DOCUMENT_END_EVENT: return plain(.documentEnd, position)
        case YAML_STREAM_START_EVENT: return plain(.streamStart, position)
        // libyaml returns `YAML_NO_EVENT` only after the end of the stream.
        default: return plain(.streamEnd, position)
        }
    }

    private func plain(_ event: YAMLEvent, _ position: YAMLPosition) -> YAMLMarkedEvent {
        YAMLMarkedEvent(event: event, position: position, isDecorated: false)
    }

    private func syntaxError() -> YAMLSyntaxError {
        let problem = unsafe parser.pointee.problem.map { unsafe String(cString: $0) } ?? "not YAML"
        // If the bytes are not UTF-8, libyaml reports the position only as an offset in bytes.
        let isReaderError = unsafe parser.pointee.error == YAML_READER_ERROR
        let position =
            isReaderError
            ? position(ofByte: unsafe parser.pointee.problem_offset)
            : YAMLPosition(unsafe parser.pointee.problem_mark)
        return YAMLSyntaxError(position: position, message: problem)
    }

    private func position(ofByte offset: Int) -> YAMLPosition {
        var line = 1
        var column = 1
        for index in 0..<min(max(offset, 0), unsafe input.count) {
            let byte = unsafe input[index]
            if byte == UInt8(ascii: "\n") {
                line += 1
                column = 1
            } else if byte & 0xC0 != 0x80 {
                column += 1
            }
        }
        return YAMLPosition(line: line, column: column)
    }
}

extension YAMLPosition {
    fileprivate init(_ mark: yaml_mark_t) {
        self.init(line: Int(clamping: mark.line) + 1, column: Int(clamping: mark.column) + 1)
    }
}
