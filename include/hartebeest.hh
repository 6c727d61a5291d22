/* SPDX-License-Identifier: MIT */
/*
 * hartebeest.hh - the C++ core of the original Hartebeest, header only, C++11
 *
 * For programs written against it: they compile and run unchanged, linked with
 * -lhartebeest.  Everything is done by hartebeest-c.h, whose rules hold here too: one
 * default context for the process, true is success, and after false the reason is in
 * hartebeest_error() (hartebeest.h) and in a line on stderr.
 *
 * Objects (Pd, Mr, Qp) belong to the core and live as long as it does.  All functions
 * may be called by many threads at once.
 */
#ifndef HARTEBEEST_HH
#define HARTEBEEST_HH

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include <infiniband/verbs.h>

#include "hartebeest-c.h"
#include "hartebeest.h"


namespace hartebeest {

class Pd {
public:
	typedef struct ibv_pd Verbs;
	explicit Pd(Verbs *verbs) : pd(verbs) {}
	Verbs *get_pd() const { return pd; }

private:
	Verbs *pd;
};

/* Of a remote region get_mr() has addr, length and rkey, and addr is the peer's. */
class Mr {
public:
	typedef struct ibv_mr Verbs;
	explicit Mr(Verbs *verbs) : mr(verbs) {}
	Verbs *get_mr() const { return mr; }
	uint8_t *get_buffer() const { return static_cast<uint8_t *>(mr->addr); }

private:
	Verbs *mr;
};

/* Of a remote queue pair get_qp() has qp_num and qp_type. */
class Qp {
public:
	typedef struct ibv_qp Verbs;
	explicit Qp(Verbs *verbs) : qp(verbs) {}
	Verbs *get_qp() const { return qp; }

private:
	Verbs *qp;
};

/* What the get_ functions hand out: one object for each of verbs', made once. */
template <class Object>
class Handles {
public:
	Object *of(typename Object::Verbs *verbs)
	{
		if (!verbs)
			return nullptr;

		std::lock_guard<std::mutex> hold(lock);
		std::unique_ptr<Object> &object = objects[verbs];

		if (!object)
			object.reset(new Object(verbs));
		return object.get();
	}

private:
	std::mutex lock;
	std::map<typename Object::Verbs *, std::unique_ptr<Object>> objects;
};

class HartebeestCore {
public:
	static HartebeestCore &get_instance()
	{
		static HartebeestCore core;
		return core;
	}

	HartebeestCore(const HartebeestCore &) = delete;
	HartebeestCore &operator=(const HartebeestCore &) = delete;

	/* get_instance() has done it. */
	void init() {}

	/* -1 when neither HARTEBEEST_NID nor a launcher tells. */
	int get_nid()
	{
		const char *nid = hartebeest_get_sysvar("HARTEBEEST_NID");

		return nid ? std::atoi(nid) : -1;
	}

	char *get_sysvar(const char *name) { return hartebeest_get_sysvar(name); }

	/* ------------------------------------------------------- messages --- */

	bool memc_push_general(const char *key) { return hartebeest_memc_push_general(key); }
	bool memc_wait_general(const char *key) { return hartebeest_memc_wait_general(key); }
	bool memc_del_general(const char *key) { return hartebeest_memc_del_general(key); }

	/* -------------------------------------------------- own resources --- */

	bool create_local_pd(const char *pd) { return hartebeest_create_local_pd(pd); }

	bool create_local_mr(const char *pd, const char *mr, size_t length, int access)
	{
		return hartebeest_create_local_mr(pd, mr, length, access);
	}

	bool create_basiccq(const char *cq) { return hartebeest_create_basiccq(cq); }

	bool create_local_qp(const char *pd, const char *qp, enum ibv_qp_type type,
			     const char *send_cq, const char *recv_cq)
	{
		return hartebeest_create_local_qp(pd, qp, type, send_cq, recv_cq);
	}

	bool init_local_qp(const char *pd, const char *qp)
	{
		return hartebeest_init_local_qp(pd, qp);
	}

	bool connect_local_qp(const char *pd, const char *qp, const char *remote_key)
	{
		return hartebeest_connect_local_qp(pd, qp, remote_key);
	}

	/* NULL when there is none. */
	Pd *get_local_pd(const char *pd) { return pds.of(hartebeest_get_local_pd(pd)); }

	Mr *get_local_mr(const char *pd, const char *mr)
	{
		return mrs.of(hartebeest_get_local_mr(pd, mr));
	}

	Qp *get_local_qp(const char *pd, const char *qp)
	{
		return qps.of(hartebeest_get_local_qp(pd, qp));
	}

	/* ------------------------------------------------------- exchange --- */

	bool memc_push_local_mr(const char *key, const char *pd, const char *mr)
	{
		return hartebeest_memc_push_local_mr(key, pd, mr);
	}

	bool memc_push_local_qp(const char *key, const char *pd, const char *qp)
	{
		return hartebeest_memc_push_local_qp(key, pd, qp);
	}

	bool memc_fetch_remote_mr(const char *key)
	{
		return hartebeest_memc_fetch_remote_mr(key);
	}

	bool memc_fetch_remote_qp(const char *key)
	{
		return hartebeest_memc_fetch_remote_qp(key);
	}

	/* NULL when it was not fetched. */
	Mr *get_remote_mr(const char *key) { return mrs.of(hartebeest_get_remote_mr(key)); }
	Qp *get_remote_qp(const char *key) { return qps.of(hartebeest_get_remote_qp(key)); }

	/* ------------------------------------------------------ data path --- */

	bool rdma_post_single_fast(struct ibv_qp *qp, void *local, void *remote, size_t length,
				   enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey,
				   uint64_t wr_id)
	{
		return hartebeest_rdma_post_single_fast(qp, local, remote, length, opcode, lkey,
							rkey, wr_id);
	}

	bool rdma_poll(const char *cq) { return hartebeest_rdma_poll(cq); }
	bool rdma_send_poll(struct ibv_qp *qp) { return hartebeest_rdma_send_poll(qp); }
	bool rdma_recv_poll(struct ibv_qp *qp) { return hartebeest_rdma_recv_poll(qp); }

private:
	HartebeestCore() { hartebeest_init(); }

	Handles<Pd> pds;
	Handles<Mr> mrs;
	Handles<Qp> qps;
};

/*
 * The original's console logger, as far as its programs use it: lines on stdout, where
 * each {} stands for the next argument and {:x} for it in hexadecimal.
 */
class ConsoleLogger {
public:
	static ConsoleLogger *get_logger()
	{
		static ConsoleLogger logger;
		return &logger;
	}

	template <class... Values>
	void info(const std::string &format, const Values &...values)
	{
		line("info", format, values...);
	}

	template <class... Values>
	void warn(const std::string &format, const Values &...values)
	{
		line("warning", format, values...);
	}

private:
	template <class... Values>
	void line(const char *level, const std::string &format, const Values &...values)
	{
		std::ostringstream text;

		text << "[HB] [" << level << "] ";
		fill(text, format, values...);
		text << '\n';

		std::lock_guard<std::mutex> hold(lock);
		std::cout << text.str() << std::flush;
	}

	static void fill(std::ostringstream &text, const std::string &format)
	{
		text << format;
	}

	template <class Value, class... Values>
	static void fill(std::ostringstream &text, const std::string &format,
			 const Value &value, const Values &...values)
	{
		size_t open = format.find('{'), close = format.find('}', open);

		if (close == std::string::npos) {
			text << format;
			return;
		}
		text << format.substr(0, open);
		text << (format.find('x', open) < close ? std::hex : std::dec) << value;
		fill(text, format.substr(close + 1), values...);
	}

	std::mutex lock;
};

} /* namespace hartebeest */

#define HARTEBEEST_CORE_HDL hartebeest::HartebeestCore::get_instance()
#ifndef HB_CLOGGER
#define HB_CLOGGER hartebeest::ConsoleLogger::get_logger()
#endif

#endif
