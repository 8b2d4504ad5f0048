import CNGHTTP2

func setClientCallbacks(_ callbacks: OpaquePointer?) {
    unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, headBegins)
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, fieldArrived)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, answerArrived)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameArrived)
    unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, frameNotSent)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
}

private func owner(_ context: UnsafeMutableRawPointer?) -> HTTP2Client? {
    unsafe context.map { unsafe Unmanaged<HTTP2Client>.fromOpaque($0).takeUnretainedValue() }
}

// MARK: Heads

extension HTTP2Client {
    fileprivate func headBegins(_ number: Int32) {
        headStream = nil
        guard let index = stream(number), !streams[index].hasFinalHead else { return }  // trailers are ignored
        headStream = index
        head.removeAll(keepingCapacity: true)
        streams[index].status = 0
    }

    /// Stores a header field of the response.
    ///
    /// - Returns: whether the head is still within the limit.
    fileprivate func fieldArrived(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let index = headStream else { return true }
        if unsafe name.first == UInt8(ascii: ":") {
            // nghttp2 has checked that `:status` occurs once and has three digits.
            streams[index].status = unsafe value.reduce(0) { $0 &* 10 &+ Int($1 &- UInt8(ascii: "0")) }
            return true
        }
        guard head.count + name.count + value.count + 3 <= limits.head else {
            streams[index].isHeadTooLong = true
            return false
        }
        unsafe head.append(fieldOf: name, value)
        return true
    }

    fileprivate func headEnded() {
        // After an interim response (1xx), the final response follows on the same stream.
        guard let index = headStream, streams[index].status >= 200 else { return }
        streams[index].hasFinalHead = true
        streams[index].head = Array(head)
        headStream = nil
    }
}

private func headBegins(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    unsafe owner(context)?.headBegins(frame.pointee.hd.stream_id)
    return 0
}

private func fieldArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameCount: Int,
    _ value: UnsafePointer<UInt8>?, _ valueCount: Int, _ flags: UInt8, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    let isTaken = unsafe owner(context)?.fieldArrived(
        UnsafeBufferPointer(start: name, count: nameCount), UnsafeBufferPointer(start: value, count: valueCount))
    // The returned error code ends only the stream, and not the connection.
    return isTaken == false ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue : 0
}

extension [UInt8] {
    /// Appends a header line `name: value` to the response head. One function appends all parts, so that Swift checks
    /// for exclusive access only once.
    fileprivate mutating func append(
        fieldOf name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>
    ) {
        unsafe append(contentsOf: name)
        append(UInt8(ascii: ":"))
        append(UInt8(ascii: " "))
        unsafe append(contentsOf: value)
        append(UInt8(ascii: "\n"))
    }
}

// MARK: Bodies

extension HTTP2Client {
    fileprivate func answerArrived(_ number: Int32, _ bytes: UnsafeBufferPointer<UInt8>) {
        guard let index = stream(number), !streams[index].isAbandoned, !streams[index].isBodyTooLarge else { return }
        guard streams[index].answer.count + bytes.count <= streams[index].answerLimit else {
            streams[index].isBodyTooLarge = true
            stopSending(index)
            return
        }
        unsafe streams[index].answer.append(contentsOf: bytes)
    }

    fileprivate func takeBody(
        _ number: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>
    ) -> (count: Int, isLast: Bool) {
        guard let index = stream(number) else { return (0, true) }
        let sent = streams[index].sentBody
        let count = min(buffer.count, streams[index].body.count - sent)
        unsafe streams[index].body.withUnsafeBufferPointer { body in
            guard count > 0, let from = body.baseAddress else { return }
            unsafe buffer.baseAddress?.update(from: from + sent, count: count)
        }
        streams[index].sentBody = sent + count
        return (count, sent + count == streams[index].body.count)
    }
}

private func answerArrived(
    _ session: OpaquePointer?, _ flags: UInt8, _ stream: Int32, _ data: UnsafePointer<UInt8>?, _ length: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe owner(context)?.answerArrived(stream, UnsafeBufferPointer(start: data, count: length))
    return 0
}

func requestBodyWanted(
    _ session: OpaquePointer?, _ stream: Int32, _ buffer: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    let taken = unsafe owner(context)?.takeBody(stream, into: UnsafeMutableBufferPointer(start: buffer, count: length))
    if taken?.isLast != false { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return taken?.count ?? 0
}

// MARK: Frames

extension HTTP2Client {
    fileprivate func ended(_ number: Int32) {
        guard let index = stream(number) else { return }
        streams[index].hasEnded = true
        if streams[index].sentBody < streams[index].body.count { stopSending(index) }
    }

    fileprivate func reset(_ number: Int32) {
        guard let index = stream(number) else { return }
        streams[index].wasReset = true
    }
}

private func frameArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame, let client = unsafe owner(context) else { return 0 }
    let head = unsafe frame.pointee.hd
    let flags = UInt32(head.flags)
    switch UInt32(head.type) {
    case NGHTTP2_HEADERS.rawValue:
        client.headEnded()
        if flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0 { client.ended(head.stream_id) }
    case NGHTTP2_DATA.rawValue: if flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0 { client.ended(head.stream_id) }
    case NGHTTP2_RST_STREAM.rawValue: client.reset(head.stream_id)
    case NGHTTP2_SETTINGS.rawValue: if flags & NGHTTP2_FLAG_ACK.rawValue == 0 { client.settingsArrived() }
    case NGHTTP2_PING.rawValue: if flags & NGHTTP2_FLAG_ACK.rawValue != 0 { client.pongArrived() }
    case NGHTTP2_GOAWAY.rawValue:
        let goAway = unsafe frame.pointee.goaway
        unsafe client.goAwayArrived(
            goAway.error_code, UnsafeBufferPointer(start: goAway.opaque_data, count: goAway.opaque_data_len))
    default: break
    }
    return 0
}

private func frameNotSent(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ code: Int32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame, unsafe UInt32(frame.pointee.hd.type) == NGHTTP2_HEADERS.rawValue else { return 0 }
    let isForbidden =
        code == NGHTTP2_ERR_START_STREAM_NOT_ALLOWED.rawValue || code == NGHTTP2_ERR_SESSION_CLOSING.rawValue
    unsafe owner(context)?.notSent(
        frame.pointee.hd.stream_id, isForbidden: isForbidden, String(cString: nghttp2_strerror(code)))
    return 0
}

private func streamClosed(
    _ session: OpaquePointer?, _ number: Int32, _ code: UInt32, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let client = unsafe owner(context), let index = client.stream(number) else { return 0 }
    client.closed(index, code)
    return 0
}
